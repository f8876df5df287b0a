"""Verifying a store, and printing what is in it."""
