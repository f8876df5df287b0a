"""The blocking clients: the same classes for code without an event loop."""
