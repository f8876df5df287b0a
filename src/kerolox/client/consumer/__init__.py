"""Push, pull and simple consumers."""
