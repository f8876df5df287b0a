"""Registration with NameServers."""
