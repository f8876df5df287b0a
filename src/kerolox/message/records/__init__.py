"""Records: the binary form of messages in the commit log and on the wire."""
