"""Pipelines over topics: declared in a file, or ready-made.

Importing this package or its modules does not import Spark, so that `--help` works without it.
"""
