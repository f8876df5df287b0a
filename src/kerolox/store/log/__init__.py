"""The commit log: its files, and how they are written, synced and read."""
