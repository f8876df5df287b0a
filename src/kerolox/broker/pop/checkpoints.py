"""Records of the revive log: checkpoints of popped messages, and their acks (PopCheckPoint, AckMsg, BatchAckMsg)."""

from collections.abc import Callable

import msgspec

from kerolox.errors import ProtocolError
from kerolox.message import property_names
from kerolox.message.hosts import NO_HOST, Host
from kerolox.message.message import Message
from kerolox.message.properties import find, mark, to_bytes
from kerolox.runtime.text import fastjson
from kerolox.wire.integers import Int32, Int64

CHECKPOINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
# The timer delivers a checkpoint to the revive log this long before its messages become visible, so that it precedes
# its acks there.
CHECKPOINT_EARLY_MILLIS = 1000
# Messages of one checkpoint: one bit each in its 32-bit map.
MESSAGES_MAX = 32
_TAGS = mark(property_names.TAGS)

Key = tuple[str, str, int, int, int, str | None]


class Checkpoint(msgspec.Struct, kw_only=True):
    """Messages of one queue that were popped together."""

    bit_map: Int32 = msgspec.field(name="bm", default=0)
    broker_name: str | None = msgspec.field(name="bn", default=None)
    group: str = msgspec.field(name="c")
    # Offset of each message minus the first; absent in records of old releases, whose offsets are consecutive.
    diffs: list[Int32] | None = msgspec.field(name="d", default=None)
    invisible_time: Int64 = msgspec.field(name="it")
    count: Int32 = msgspec.field(name="n")
    pop_time: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    # Written for Java, which writes it but does not read it.
    written_revive_time: Int64 | None = msgspec.field(name="reviveTime", default=None)
    # Queue offset in the revive log, set when the record is read from there.
    revive_offset: Int64 = msgspec.field(name="ro", default=0)
    # How often Java failed to revive its messages.
    put_again: str | None = msgspec.field(name="rp", default=None)
    start_offset: Int64 = msgspec.field(name="so")
    # Its messages are revived without increasing `reconsumeTimes`.
    is_suspended: bool = msgspec.field(name="sp", default=False)
    topic: str = msgspec.field(name="t")

    @property
    def revive_time(self) -> int:
        return self.pop_time + self.invisible_time

    @property
    def key(self) -> Key:
        return self.topic, self.group, self.queue_id, self.start_offset, self.pop_time, self.broker_name

    @property
    def offsets(self) -> list[int]:
        """The queue offsets of its messages."""
        if not self.diffs:
            return [self.start_offset + index for index in range(min(self.count, MESSAGES_MAX))]
        return [self.start_offset + diff for diff in self.diffs[:MESSAGES_MAX]]

    @property
    def unacked(self) -> list[int]:
        return [offset for index, offset in enumerate(self.offsets) if not self.bit_map >> index & 1]

    def ack(self, offset: int) -> None:
        """Mark a message as acknowledged; an offset that is not in the checkpoint is ignored."""
        offsets = self.offsets
        if offset in offsets:
            self.bit_map |= 1 << offsets.index(offset)


class Ack(msgspec.Struct, kw_only=True):
    """Acknowledges messages of one checkpoint: `offset`, or several `offsets`."""

    offset: Int64 = msgspec.field(name="ao")
    offsets: list[Int64] | None = msgspec.field(name="aol", default=None)
    broker_name: str | None = msgspec.field(name="bn", default=None)
    group: str = msgspec.field(name="c")
    pop_time: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    start_offset: Int64 = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")

    @property
    def key(self) -> Key:
        return self.topic, self.group, self.queue_id, self.start_offset, self.pop_time, self.broker_name


class ReviveLog:
    """Encodes and decodes messages of the revive topic. They are timed: the timer delivers them when they are due.

    `host` returns the address of this broker, which is unknown until the broker listens.
    """

    def __init__(
        self, topic: str, broker_name: str, now: Callable[[], int], *, host: Callable[[], Host] = lambda: NO_HOST
    ) -> None:
        self.topic = topic
        self.broker_name = broker_name
        self._now = now
        self.host = host

    def checkpoint(self, checkpoint: Checkpoint, revive_queue_id: int) -> Message:
        checkpoint.written_revive_time = checkpoint.revive_time
        unique_key = (
            f"{checkpoint.topic}@{checkpoint.queue_id}@{checkpoint.start_offset}@{checkpoint.group}"
            f"@{checkpoint.pop_time}@{checkpoint.broker_name}@{CHECKPOINT_TAG}"
        )
        deliver = checkpoint.revive_time - CHECKPOINT_EARLY_MILLIS
        return self._message(CHECKPOINT_TAG, fastjson.encode(checkpoint), revive_queue_id, unique_key, deliver)

    def decode(self, message: Message) -> Checkpoint | Ack | None:
        """Return the checkpoint or ack of a message; None if it cannot be decoded."""
        kind = _KINDS.get(find(message.properties, _TAGS))
        if kind is None:
            return None
        try:
            record = fastjson.decode(message.body, kind)
        except ProtocolError:
            return None
        # Old releases did not write the broker name.
        record.broker_name = record.broker_name or self.broker_name
        return record

    def ack(self, ack: Ack, revive_queue_id: int, revive_time: int) -> Message:
        tag = ACK_TAG if ack.offsets is None else BATCH_ACK_TAG
        unique_key = f"{ack.topic}@{ack.queue_id}@{ack.offset}@{ack.group}@{ack.pop_time}@{ack.broker_name}@{ACK_TAG}"
        return self._message(tag, fastjson.encode(ack), revive_queue_id, unique_key, revive_time)

    def _message(self, tag: str, body: bytes, queue_id: int, unique_key: str, deliver: int) -> Message:
        host = self.host()
        properties = {
            property_names.TAGS: tag,
            property_names.UNIQ_KEY: unique_key,
            property_names.TIMER_DELIVER_MS: str(deliver),
        }
        return Message(
            self.topic,
            body,
            to_bytes(properties),
            queue_id,
            born_timestamp=self._now(),
            born_host=host,
            store_host=host,
        )


_KINDS: dict[bytes, type[Checkpoint] | type[Ack]] = {
    CHECKPOINT_TAG.encode(): Checkpoint,
    ACK_TAG.encode(): Ack,
    BATCH_ACK_TAG.encode(): Ack,
}
