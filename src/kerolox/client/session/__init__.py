"""The session that all producers and consumers of one client id share: connections, routes and heartbeats."""
