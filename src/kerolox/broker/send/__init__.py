"""Sends: admission, collection of plain sends, batches, the store call and the responses."""
