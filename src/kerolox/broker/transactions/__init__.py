"""Transactions: half messages, what became of them, and asking producers that have not said."""
