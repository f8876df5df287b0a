"""Apache RocketMQ itself, run as the yardstick: its jars, its processes, its tools."""

VERSIONS = ("4.9.8", "5.5.0")

# The servers of 4.9.8 never reached Maven, its clients and tools did: 4.9.7 is the newest 4.9 server there.
SERVER_VERSIONS = {"4.9.8": "4.9.7", "5.5.0": "5.5.0"}
