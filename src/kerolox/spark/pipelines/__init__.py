"""Pipelines over topics: those that a file declares, and those that come ready-made.

Importing this package, or a module of it, imports no Spark: a command can tell of itself where none is installed.
"""
