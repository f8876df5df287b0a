"""Messages as users see them: what they send, and what they get."""

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

# Compressed bodies unpack to no more than this, whatever they claim.
BODY_SIZE_MAX = 64 * 1024 * 1024


@dataclass(slots=True)
class Message:
    """What a user sends. Of the delays at most one is given: a level of the broker's, a time, or seconds from now.

    Brokers before 5.0 know levels only, and deliver the others at once.
    """

    topic: str
    body: bytes
    tag: str | None = None
    # By these a message can be found; they hold no spaces.
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    delay_level: int = 0
    deliver_at: datetime | None = None
    delay_seconds: float | None = None
    # The user's own number, carried untouched.
    flag: int = 0
    # Whether the broker answers only when the message is as safe as it is configured to make it.
    is_awaited: bool = True
    # Set by whoever sends it a second time under the same id; made when sending if not.
    message_id: str | None = None


class SendStatus(Enum):
    """In all cases the broker has the message; other than OK says how safe it is not yet."""

    OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message, or a batch of them, came to lie. The ids of a batch are parted by commas."""

    status: SendStatus
    message_id: str
    offset_id: str
    queue: MessageQueue
    # Of a batch, that of its first message.
    queue_offset: int
    transaction_id: str | None = None
    # With this a timed message can be taken back.
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
    """What a user gets. `record` has all that the broker keeps of it."""

    record: Record
    # Where it was read: for a message that comes again, a queue of the group's retry topic.
    queue: MessageQueue
    # The topic it was sent to, without the namespace.
    topic: str
    body: bytes
    # How often it came before.
    reconsume_times: int
    # By which a popped message is acknowledged.
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
        """The id its producer gave it, which is the same each time it comes."""
        return self.record.message_id

    @property
    def offset_id(self) -> str:
        """The id that says where this copy of it lies."""
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
    """Returns a record as a user sees it; CompressionError if its body cannot be restored."""
    body = message.body
    if message.sys_flag & COMPRESSED:
        body = decompress(body, message.sys_flag, BODY_SIZE_MAX)
    return Received(message, queue, topic or message.topic, body, message.reconsume_times)
