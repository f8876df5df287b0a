"""Services, clock, configuration, lanes and files."""
