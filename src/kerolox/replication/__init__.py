"""Copies a commit log to other brokers: the HA streams, epochs and the sync state set."""
