"""The remoting protocol over real sockets."""
