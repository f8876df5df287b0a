"""Key-value tables."""

from kerolox.wire.bodies.body import Body


class KVTable(Body):
    table: dict[str, str] = {}


class KVConfig(Body):
    """The NameServer's kvConfig.json: namespace → key → value."""

    config_table: dict[str, dict[str, str]] = {}
