"""`mqadmin` commands for consumer groups and clients."""
