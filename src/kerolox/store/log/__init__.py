"""The commit log: its files, and writing, syncing and reading them."""
