"""Message filters: SQL92 expressions over properties, and Bloom filters."""
