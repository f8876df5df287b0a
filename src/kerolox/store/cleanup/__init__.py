"""Deletion of expired files and deleted topics."""
