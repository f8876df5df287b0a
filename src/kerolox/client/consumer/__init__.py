"""What consumers are made of: who reads which queue, from where, and what is in hand of it."""
