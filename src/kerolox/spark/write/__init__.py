"""Writing tables to topics."""
