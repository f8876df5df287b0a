"""`mqadmin` commands for brokers, clusters and NameServers."""
