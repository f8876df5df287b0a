"""`mqadmin` commands for messages."""
