"""What is popped in order: a queue gives nothing more until what it gave was consumed, or has become visible again."""

from pathlib import Path

import msgspec

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.persistence import Kept
from kerolox.broker.pop.names import mark_of
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import JsonTable
from kerolox.wire.bodies.body import Body
from kerolox.wire.integers import Int32, Int64

CONSUMER_ORDER_INFO = "consumerOrderInfo.json"
# What nobody has consumed for a day is forgotten.
FORGOTTEN_MILLIS = 24 * 3600 * 1000
# A bound the original does not have.
_GROUPS_MAX = 200_000


class OrderInfo(Body, kw_only=True):
    """The last messages that a queue gave to a group."""

    attempt_id: str | None = msgspec.field(name="a", default=None)
    # Bit i is set when message i was consumed.
    acked: Int64 = msgspec.field(name="cm", default=0)
    invisible_time: Int64 | None = msgspec.field(name="i", default=None)
    last_consumed: Int64 = msgspec.field(name="l", default=0)
    # The first offset, then how far behind it the others lie.
    offset_list: list[Int64] = msgspec.field(name="o", default_factory=list)
    # By offset, how often a message was given before; only where it was.
    counts: dict[Int64, Int32] | None = msgspec.field(name="oc", default=None)
    # By offset, when a message becomes visible, where that was changed.
    visible_times: dict[Int64, Int64] | None = msgspec.field(name="ot", default=None)
    pop_time: Int64 = 0

    @property
    def offsets(self) -> list[int]:
        first = self.offset_list[:1]
        return first + [first[0] + diff for diff in self.offset_list[1:]]

    @property
    def next_offset(self) -> int:
        """The first offset that was not consumed."""
        offsets = self.offsets
        for index, offset in enumerate(offsets):
            if not self.acked >> index & 1:
                return offset
        return offsets[-1] + 1

    def visible_at(self, now: int) -> int:
        """Returns until when the queue gives nothing; at most `now` if it may give already."""
        until = now
        for index, offset in enumerate(self.offsets):
            if not self.acked >> index & 1:
                until = max(until, (self.visible_times or {}).get(offset, self.pop_time + (self.invisible_time or 0)))
        return until


class OrderTable(Body, kw_only=True):
    """By `topic@group`, then by queue; the other members are those of 5.5, which counts and names its kind."""

    order_info_count: Int32 = 0
    ordered_consumption_level: str = "QUEUE"
    table: dict[str, dict[Int32, OrderInfo]] = msgspec.field(default_factory=dict)


class Orders:
    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._clock = clock
        self._json = JsonTable(disk, directory / CONSUMER_ORDER_INFO, OrderTable)
        seconds = config.flush_consumer_offset_interval / 1000
        self.file = Kept(self._json, self.serialized, clock=clock, seconds=seconds)
        self.table: dict[str, dict[int, OrderInfo]] = {}

    def load(self) -> None:
        loaded = self._json.load()
        if loaded is not None:
            self.table = loaded.table

    def serialized(self) -> OrderTable:
        self._forget()
        return OrderTable(order_info_count=sum(map(len, self.table.values())), table=self.table)

    def get(self, topic: str, group: str, queue_id: int) -> OrderInfo | None:
        return self.table.get(f"{topic}@{group}", {}).get(queue_id)

    def blocked_until(self, attempt_id: str | None, topic: str, group: str, queue_id: int, invisible_time: int) -> int:
        """Returns when the queue gives something again; 0 if it does now.

        Whoever repeats the attempt that got the messages gets them again.
        """
        info = self.get(topic, group, queue_id)
        if info is None or not info.offset_list or (info.attempt_id is not None and info.attempt_id == attempt_id):
            return 0
        if not info.invisible_time or info.invisible_time <= 0:
            info.invisible_time = invisible_time
        now = self._clock.millis()
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
        """Notes what a queue gave; returns how often each message was given before, as the answer says it."""
        queues = self.table.setdefault(f"{topic}@{group}", {})
        before = queues.get(queue_id)
        if len(self.table) > _GROUPS_MAX:
            raise SystemBusy(f"{_GROUPS_MAX} groups consume topics in order, and no more may")
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
        self.file.changed()
        return _count_info(topic, queue_id, info)

    def acked(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> int:
        """Notes that a message was consumed; returns the offset to commit, -1 if it is none of these, -2 if none."""
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
        self.file.changed()
        return info.next_offset

    def change_visible_time(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, visible_time: int
    ) -> None:
        info = self.get(topic, group, queue_id)
        if info is None or info.pop_time != pop_time or offset not in info.offsets:
            return
        info.visible_times = {**(info.visible_times or {}), offset: visible_time}
        self.file.changed()

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

    def _forget(self) -> None:
        oldest = self._clock.millis() - FORGOTTEN_MILLIS
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
    # Old clients ask by queue: what holds for all of them.
    least = min(counts.values()) if counts and len(counts) == len(info.offset_list) else 0
    return ";".join([*parts, f"{mark} {queue_id} {least}"])
