"""MessageQueue: one queue of a topic on one broker."""

import msgspec

from kerolox.wire.integers import Int32


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """Identifies a queue. Java uses it, encoded as JSON, as the key of maps."""

    broker_name: str
    queue_id: Int32
    topic: str
