"""Request processors, one per family of request codes."""
