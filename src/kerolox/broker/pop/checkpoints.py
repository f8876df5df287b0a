"""What the revive log holds: checkpoints of what was popped, and acks of what was consumed, as Java writes them."""

from collections.abc import Callable

import msgspec

from kerolox.errors import ProtocolError
from kerolox.message import names
from kerolox.message.hosts import NOWHERE, Host
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.runtime import fastjson
from kerolox.wire.integers import Int32, Int64

CHECKPOINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
# A checkpoint reaches the revive log so long before its messages become visible: its acks follow it.
CHECKPOINT_EARLY_MILLIS = 1000
# Bits in the bit map.
MESSAGES_MAX = 32

Key = tuple[str, str, int, int, int, str | None]


class Checkpoint(msgspec.Struct, kw_only=True):
    """Messages of one queue that were popped together."""

    bit_map: Int32 = msgspec.field(name="bm", default=0)
    broker_name: str | None = msgspec.field(name="bn", default=None)
    group: str = msgspec.field(name="c")
    # Of each message, how far behind the first offset it lies; old ones lack it, then they lie side by side.
    diffs: list[Int32] | None = msgspec.field(name="d", default=None)
    invisible_time: Int64 = msgspec.field(name="it")
    count: Int32 = msgspec.field(name="n")
    pop_time: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    # Java writes it along; nobody reads it.
    written_revive_time: Int64 | None = msgspec.field(name="reviveTime", default=None)
    # Where it lies in the revive log, once it does.
    revive_offset: Int64 = msgspec.field(name="ro", default=0)
    # How often Java tried to bring its messages back and could not.
    put_again: str | None = msgspec.field(name="rp", default=None)
    start_offset: Int64 = msgspec.field(name="so")
    # Its messages come again without counting as consumed.
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
        """Notes that a message was consumed; one that is not among its messages changes nothing."""
        offsets = self.offsets
        if offset in offsets:
            self.bit_map |= 1 << offsets.index(offset)


class Ack(msgspec.Struct, kw_only=True):
    """Messages of one checkpoint that were consumed: one, or several with `offsets`."""

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
    """Makes the messages of the revive log. The timer carries them there when they can matter."""

    def __init__(self, topic: str, broker_name: str, now: Callable[[], int]) -> None:
        self.topic = topic
        self._broker_name = broker_name
        self._now = now
        # Who wrote it; known once the broker has its port.
        self.host: Callable[[], Host] = lambda: NOWHERE

    def checkpoint(self, checkpoint: Checkpoint, revive_queue_id: int) -> Message:
        checkpoint.written_revive_time = checkpoint.revive_time
        identity = (
            f"{checkpoint.topic}@{checkpoint.queue_id}@{checkpoint.start_offset}@{checkpoint.group}"
            f"@{checkpoint.pop_time}@{checkpoint.broker_name}@{CHECKPOINT_TAG}"
        )
        deliver = checkpoint.revive_time - CHECKPOINT_EARLY_MILLIS
        return self._message(CHECKPOINT_TAG, fastjson.encode(checkpoint), revive_queue_id, identity, deliver)

    def decode(self, message: Message) -> Checkpoint | Ack | None:
        """Returns what a message of the revive log says; None if that cannot be read."""
        kind = _KINDS.get(message.tags or "")
        if kind is None:
            return None
        try:
            found = fastjson.decode(message.body, kind)
        except ProtocolError:
            return None
        # Old releases did not write it.
        found.broker_name = found.broker_name or self._broker_name
        return found

    def ack(self, ack: Ack, revive_queue_id: int, revive_time: int) -> Message:
        tag = ACK_TAG if ack.offsets is None else BATCH_ACK_TAG
        identity = f"{ack.topic}@{ack.queue_id}@{ack.offset}@{ack.group}@{ack.pop_time}@{ack.broker_name}@{ACK_TAG}"
        return self._message(tag, fastjson.encode(ack), revive_queue_id, identity, revive_time)

    def _message(self, tag: str, body: bytes, queue_id: int, identity: str, deliver: int) -> Message:
        host = self.host()
        properties = {names.TAGS: tag, names.UNIQ_KEY: identity, names.TIMER_DELIVER_MS: str(deliver)}
        return Message(
            self.topic,
            body,
            to_bytes(properties),
            queue_id,
            born_timestamp=self._now(),
            born_host=host,
            store_host=host,
        )


_KINDS: dict[str, type[Checkpoint] | type[Ack]] = {CHECKPOINT_TAG: Checkpoint, ACK_TAG: Ack, BATCH_ACK_TAG: Ack}
