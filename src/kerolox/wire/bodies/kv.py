"""Key-value tables."""

from kerolox.wire.bodies.body import Body


class KVTable(Body):
    table: dict[str, str] = {}


class KVConfig(Body):
    """The NameServer's key-value file: namespace to key to value."""

    config_table: dict[str, dict[str, str]] = {}
