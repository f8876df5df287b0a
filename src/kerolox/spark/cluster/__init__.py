"""Connections of Spark processes to a cluster, and the metadata they query."""
