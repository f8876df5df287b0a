"""The server side: listeners, connections, their limits, and metrics over HTTP."""
