"""The remoting protocol on asyncio: connections, clients, servers, and who answers which request."""
