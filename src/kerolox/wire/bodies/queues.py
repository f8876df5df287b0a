"""A queue, as clients and tools name it."""

import msgspec

from kerolox.wire.integers import Int32


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """Of these are made the keys of Java's tables by queue."""

    broker_name: str
    queue_id: Int32
    topic: str
