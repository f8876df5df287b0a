"""Ordered popping: a queue is blocked until its popped messages are acknowledged (ConsumerOrderInfoManager)."""

from pathlib import Path

import msgspec

from kerolox.broker.config import BrokerConfig
from kerolox.broker.pop.receipt_handle import mark_of
from kerolox.broker.tables.json_file import JsonFile
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import JsonTable
from kerolox.wire.bodies.body import Body
from kerolox.wire.integers import Int32, Int64

CONSUMER_ORDER_INFO = "consumerOrderInfo.json"
# Entries that were not used for a day are removed.
EXPIRY_MILLIS = 24 * 3600 * 1000
# A clock that is set back by less than this is not detected.
_CLOCK_BACK_MILLIS = 2000
# A limit that RocketMQ does not have.
_GROUPS_MAX = 200_000


class OrderInfo(Body, kw_only=True):
    """The last messages that a group popped from a queue (OrderInfo)."""

    attempt_id: str | None = msgspec.field(name="a", default=None)
    # Bit i is set when message i is acknowledged.
    acked: Int64 = msgspec.field(name="cm", default=0)
    invisible_time: Int64 | None = msgspec.field(name="i", default=None)
    last_consumed: Int64 = msgspec.field(name="l", default=0)
    # The first offset, then the differences of the others to it.
    offset_list: list[Int64] = msgspec.field(name="o", default_factory=list)
    # Offset -> how often the message was popped before, if it was.
    counts: dict[Int64, Int32] | None = msgspec.field(name="oc", default=None)
    # Offset -> when the message becomes visible, if that was changed.
    visible_times: dict[Int64, Int64] | None = msgspec.field(name="ot", default=None)
    pop_time: Int64 = 0

    @property
    def offsets(self) -> list[int]:
        first = self.offset_list[:1]
        return first + [first[0] + diff for diff in self.offset_list[1:]]

    @property
    def next_offset(self) -> int:
        """The first offset that is not acknowledged."""
        offsets = self.offsets
        for index, offset in enumerate(offsets):
            if not self.acked >> index & 1:
                return offset
        return offsets[-1] + 1

    def shift(self, now: int) -> None:
        """Let the invisible times start now: the messages were popped by a clock that has been set back since.

        `pop_time` stays, because acks refer to it.
        """
        ahead, self.last_consumed = self.last_consumed - now, now
        until = self.pop_time + (self.invisible_time or 0)
        times = self.visible_times or {}
        self.visible_times = {offset: times.get(offset, until) - ahead for offset in self.offsets}

    def visible_at(self, now: int) -> int:
        """Return until when the queue is blocked; `now` if it is not."""
        until = now
        for index, offset in enumerate(self.offsets):
            if not self.acked >> index & 1:
                until = max(until, (self.visible_times or {}).get(offset, self.pop_time + (self.invisible_time or 0)))
        return until


class OrderTable(Body, kw_only=True):
    """The file: `topic@group` -> queue -> OrderInfo, with the two extra fields of RocketMQ 5.5."""

    order_info_count: Int32 = 0
    ordered_consumption_level: str = "QUEUE"
    table: dict[str, dict[Int32, OrderInfo]] = msgspec.field(default_factory=dict)


class OrderInfos:
    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._clock = clock
        self._json = JsonTable(disk, directory / CONSUMER_ORDER_INFO, OrderTable)
        seconds = config.flush_consumer_offset_interval / 1000
        self.file = JsonFile(self._json, self.serialized, clock=clock, seconds=seconds)
        self.table: dict[str, dict[int, OrderInfo]] = {}

    def load(self) -> None:
        loaded = self._json.load()
        if loaded is not None:
            self.table = loaded.table

    def serialized(self) -> OrderTable:
        self._remove_expired()
        return OrderTable(order_info_count=sum(map(len, self.table.values())), table=self.table)

    def get(self, topic: str, group: str, queue_id: int) -> OrderInfo | None:
        return self.table.get(f"{topic}@{group}", {}).get(queue_id)

    def blocked_until(self, attempt_id: str | None, topic: str, group: str, queue_id: int, invisible_time: int) -> int:
        """Return until when the queue is blocked; 0 if it is not.

        A request that repeats the attempt that popped the messages gets them again.
        """
        info = self.get(topic, group, queue_id)
        if info is None or not info.offset_list or (info.attempt_id is not None and info.attempt_id == attempt_id):
            return 0
        if not info.invisible_time or info.invisible_time <= 0:
            info.invisible_time = invisible_time
        now = self._clock.millis()
        if info.last_consumed > now + _CLOCK_BACK_MILLIS:
            info.shift(now)
            self.file.changed()
        until = info.visible_at(now)
        return until if until > now else 0

    def popped(
        self,
        attempt_id: str | None,
        topic: str,
        group: str,
        queue_id: int,
        pop_time: int,
        invisible_time: int,
        offsets: list[int],
    ) -> str:
        """Record popped messages; return how often each was popped before, in the format of the response header."""
        queues = self.table.setdefault(f"{topic}@{group}", {})
        before = queues.get(queue_id)
        if len(self.table) > _GROUPS_MAX:
            raise SystemBusy(f"the limit of {_GROUPS_MAX} groups that pop in order is reached")
        info = OrderInfo(
            attempt_id=attempt_id,
            invisible_time=invisible_time,
            last_consumed=self._clock.millis(),
            offset_list=offsets[:1] + [offset - offsets[0] for offset in offsets[1:]],
            pop_time=pop_time,
        )
        if before is not None:
            info.counts = _counts(before, info)
        queues[queue_id] = info
        self._changed()
        return _count_info(topic, queue_id, info)

    def acked(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> int:
        """Record an ack; return the offset to commit, -1 if the offset is unknown, -2 if the pop time differs."""
        info = self.get(topic, group, queue_id)
        if info is None:
            return offset + 1
        offsets = info.offsets
        if not offsets:
            return -1
        if pop_time != info.pop_time:
            return -2
        if offset not in offsets:
            return -1
        info.acked |= 1 << offsets.index(offset)
        self._changed()
        return info.next_offset

    def change_visible_time(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, visible_time: int
    ) -> None:
        info = self.get(topic, group, queue_id)
        if info is None or info.pop_time != pop_time or offset not in info.offsets:
            return
        now = self._clock.millis()
        if info.last_consumed > now + _CLOCK_BACK_MILLIS:
            info.shift(now)
        # Also marks that this entry was written by the present clock, see `blocked_until`.
        info.last_consumed = now
        info.visible_times = {**(info.visible_times or {}), offset: visible_time}
        self._changed()

    def _changed(self) -> None:
        """Save the table soon: the log has no record of ordered pops, so a crash repeats those that are not saved."""
        self.file.changed()
        self.file.save_soon()

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        if self.table.get(f"{topic}@{group}", {}).pop(queue_id, None) is not None:
            self.file.changed()

    def delete_topic(self, topic: str) -> None:
        self._delete([key for key in self.table if key.partition("@")[0] == topic])

    def delete_group(self, group: str) -> None:
        self._delete([key for key in self.table if key.partition("@")[2] == group])

    def _delete(self, keys: list[str]) -> None:
        for key in keys:
            del self.table[key]
            self.file.changed()

    def _remove_expired(self) -> None:
        oldest = self._clock.millis() - EXPIRY_MILLIS
        for key, queues in list(self.table.items()):
            for queue_id in [queue_id for queue_id, info in queues.items() if info.last_consumed < oldest]:
                del queues[queue_id]
            if not queues:
                del self.table[key]


def _counts(before: OrderInfo, info: OrderInfo) -> dict[int, int]:
    counted = before.counts or {}
    if before.attempt_id is not None and before.attempt_id == info.attempt_id:
        return counted
    again = set(before.offsets)
    return {offset: counted.get(offset, 0) + 1 for offset in info.offsets if offset in again}


def _count_info(topic: str, queue_id: int, info: OrderInfo) -> str:
    mark, counts = mark_of(topic), info.counts or {}
    parts = [f"{mark} qo{queue_id}%{offset} {count}" for offset, count in counts.items()]
    # For old clients, which count by queue: the lowest count of its messages.
    least = min(counts.values()) if counts and len(counts) == len(info.offset_list) else 0
    return ";".join([*parts, f"{mark} {queue_id} {least}"])
