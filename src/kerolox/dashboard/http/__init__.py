"""The HTTP side of the dashboard: connections, security, login and page rendering."""
