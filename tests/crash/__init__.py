"""Real processes that are killed or refused by the system, and the long proofs of the store."""
