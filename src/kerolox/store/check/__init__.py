"""Checking, repairing and dumping a store."""
