"""Transactions: half messages, the queue of their outcomes, and the checks of those that are undecided."""
