"""Fetching messages: pull and pop requests, and the messages in process."""
