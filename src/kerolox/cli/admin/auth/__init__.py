"""`mqadmin` commands for users, ACL policies and ACL files."""
