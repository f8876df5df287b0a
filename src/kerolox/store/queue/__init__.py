"""Consume queues, and what is found by them."""
