"""The messages that users send and receive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

import msgspec

from kerolox.message import hosts
from kerolox.message.compression import decompress
from kerolox.message.message import Message as Record
from kerolox.message.sysflag import COMPRESSED
from kerolox.wire.bodies.queues import MessageQueue

# The limit for a decompressed body: a hostile message could otherwise exhaust the memory.
BODY_SIZE_MAX = 64 * 1024 * 1024


@dataclass(slots=True)
class Message:
    """A message to send. Set at most one of `delay_level`, `deliver_at` and `delay_seconds`.

    Brokers before 5.0 support only delay levels, and deliver messages with the other two at once.
    """

    topic: str
    body: bytes
    tag: str | None = None
    # Keys to find the message by; without spaces.
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    delay_level: int = 0
    deliver_at: datetime | None = None
    delay_seconds: float | None = None
    # A number for the application, which RocketMQ does not interpret.
    flag: int = 0
    # Whether the broker responds only after flushing and replicating the message as configured (WAIT).
    is_awaited: bool = True
    # Set it to send a message again under its id; generated if None.
    message_id: str | None = None


class SendStatus(Enum):
    """The broker has stored the message in all cases; a status other than OK tells what has not been done in time."""

    OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """The queue and offset where a message, or a batch, is stored. The ids of a batch are separated by commas."""

    status: SendStatus
    message_id: str
    offset_id: str
    queue: MessageQueue
    # For a batch, the offset of its first message.
    queue_offset: int
    transaction_id: str | None = None
    # The argument of `recall` for a timed message.
    recall_handle: str | None = None
    region_id: str = "DefaultRegion"
    is_traced: bool = True

    @property
    def message_ids(self) -> list[str]:
        return self.message_id.split(",")

    @property
    def offset_ids(self) -> list[str]:
        return self.offset_id.split(",")


class Received(msgspec.Struct, eq=False):
    """A received message. `record` is the complete record of the broker."""

    record: Record
    # The queue it was read from; for a retried message, a queue of the group's retry topic.
    queue: MessageQueue
    # The topic it was sent to, without the namespace.
    topic: str
    body: bytes
    # How many times it was delivered before.
    reconsume_times: int
    # The receipt handle by which a popped message is acknowledged.
    receipt: str | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        return self.record.parsed

    @property
    def tag(self) -> str | None:
        return self.record.tags

    @property
    def keys(self) -> list[str]:
        return self.record.keys

    @property
    def message_id(self) -> str:
        """The id from its producer (UNIQ_KEY), which is the same in all deliveries."""
        return self.record.message_id

    @property
    def offset_id(self) -> str:
        """The id that encodes broker address and physical offset of this copy of the message."""
        return self.record.offset_id

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def flag(self) -> int:
        return self.record.flag

    @property
    def born_millis(self) -> int:
        return self.record.born_timestamp

    @property
    def stored_millis(self) -> int:
        return self.record.store_timestamp

    @property
    def born_at(self) -> datetime:
        return datetime.fromtimestamp(self.born_millis / 1000, UTC)

    @property
    def stored_at(self) -> datetime:
        return datetime.fromtimestamp(self.stored_millis / 1000, UTC)

    @property
    def born_host(self) -> str:
        return hosts.to_text(self.record.born_host)

    @property
    def store_host(self) -> str:
        return hosts.to_text(self.record.store_host)

    def __repr__(self) -> str:
        return f"Received({self.topic!r}, {self.message_id}, {len(self.body)} bytes, {self.queue}@{self.queue_offset})"


def received(message: Record, queue: MessageQueue, topic: str | None = None) -> Received:
    """Convert a record, decompressing its body; raise CompressionError if that fails."""
    body = message.body
    if message.sys_flag & COMPRESSED:
        body = decompress(body, message.sys_flag, BODY_SIZE_MAX)
    return Received(message, queue, topic or message.topic, body, message.reconsume_times)
