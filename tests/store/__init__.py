"""The store: files, recovery, and what is left when a machine stops."""
