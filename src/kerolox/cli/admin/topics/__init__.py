"""`mqadmin` commands for topics."""
