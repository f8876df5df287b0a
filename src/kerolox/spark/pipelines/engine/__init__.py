"""Runs pipelines: their specification, queries, progress and session."""
