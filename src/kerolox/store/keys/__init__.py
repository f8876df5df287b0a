"""The key index."""
