"""Delayed messages: delay levels, their queues and their delivery."""
