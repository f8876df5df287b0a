"""Consume queues, and reading messages through them."""
