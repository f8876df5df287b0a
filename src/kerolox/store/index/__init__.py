"""The key index: finds messages by key, unique key or tag."""
