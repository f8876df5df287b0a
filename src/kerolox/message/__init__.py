"""A message in memory and as a record in bytes: the store writes it, clients read it."""
