"""Runs Apache RocketMQ as the reference: its jars, processes and tools."""

VERSIONS = ("4.9.8", "5.5.0")

# Maven has the clients and tools of 4.9.8 but not its servers: 4.9.7 is the newest 4.9 server there.
SERVER_VERSIONS = {"4.9.8": "4.9.7", "5.5.0": "5.5.0"}
