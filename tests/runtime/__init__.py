"""Services, clock, configuration, request queues and files."""
