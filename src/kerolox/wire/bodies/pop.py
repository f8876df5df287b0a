"""Batch acks of pop consumption, and the pull or pop mode of groups."""

from typing import Any

import msgspec

from kerolox.errors import ProtocolError
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.clients import MessageRequestMode
from kerolox.wire.integers import Int32, Int64

PULL, POP = "PULL", "POP"

# Full member name → short one; Java accepts both.
_SHORT = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}


class BatchAck(msgspec.Struct, kw_only=True):
    """Acks messages of one pop: bit i acks offset `start_offset` + i."""

    bit_set: str = msgspec.field(name="b")
    consumer_group: str = msgspec.field(name="c")
    invisible_time: Int64 = msgspec.field(name="it")
    pop_time: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    # 0: the topic itself; 1 and 2: its retry topics v1 and v2.
    retry: str = msgspec.field(name="r")
    revive_queue_id: Int32 = msgspec.field(name="rq")
    start_offset: Int64 = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")


class BatchAcks(Body):
    acks: list[dict[str, Any]] | None = None
    broker_name: str | None = None

    @property
    def batches(self) -> list[BatchAck]:
        """Returns the decoded acks, with short or full names. Raises ProtocolError if one is invalid."""
        try:
            return [
                msgspec.convert({_SHORT.get(name, name): value for name, value in ack.items()}, BatchAck, strict=False)
                for ack in self.acks or ()
            ]
        except msgspec.ValidationError as error:
            raise ProtocolError(f"an ack cannot be read: {error}") from error

    @classmethod
    def of(cls, broker_name: str, batches: list[BatchAck]) -> "BatchAcks":
        return cls([msgspec.to_builtins(batch) for batch in batches], broker_name)


class MessageRequestModes(Body):
    """Topic → group → mode."""

    message_request_mode_map: dict[str, dict[str, MessageRequestMode]] = msgspec.field(default_factory=dict)
