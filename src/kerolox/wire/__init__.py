"""The remoting protocol without a socket: frames, commands, headers and bodies."""
