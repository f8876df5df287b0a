"""Records as Arrow batches."""
