"""Handling messages: the calls of user handlers, acks and retries."""
