"""Metrics: counters by label, and their export to Prometheus."""
