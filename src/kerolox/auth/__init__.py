"""Access control: signatures of requests."""
