"""Limits on requests in progress and on what clients may store in the broker."""
