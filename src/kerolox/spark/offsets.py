"""Offsets of many queues: the forms in which users and checkpoints have them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kerolox.wire.bodies.queues import MessageQueue

# In the place of an offset, as with Spark's Kafka source.
LATEST: Final = -1
EARLIEST: Final = -2

# No topic can be named so.
_BEGIN: Final = "@begin"
_ANEW: Final = "@anew"

Offsets = dict[MessageQueue, int]


class QueueRange(NamedTuple):
    """Messages of one queue, from `start` up to before `end`."""

    topic: str
    broker_name: str
    queue_id: int
    start: int
    end: int

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.broker_name, self.queue_id, self.topic)

    @property
    def length(self) -> int:
        return self.end - self.start


def range_of(queue: MessageQueue, start: int, end: int) -> QueueRange:
    return QueueRange(queue.topic, queue.broker_name, queue.queue_id, start, end)


def to_json(offsets: Mapping[MessageQueue, int]) -> dict[str, Any]:
    """Returns `{topic: {broker: {queue: offset}}}`, sorted: in another order it would be another offset to Spark."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets, key=_by_topic):
        found.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return found


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Returns what `to_json` was given; ValueError if it is of another form."""
    found: Offsets = {}
    for topic, brokers in _items(value):
        for broker_name, queues in _items(brokers):
            for queue_id, offset in _items(queues):
                if isinstance(offset, bool) or not isinstance(offset, int):
                    raise ValueError(f"{offset!r} is no offset")
                found[MessageQueue(broker_name, int(queue_id), topic)] = offset
    return found


def queues_from_json(value: Mapping[str, Any]) -> tuple[MessageQueue, ...]:
    """Returns the queues that `{topic: {broker: [queue]}}` names; ValueError if it is of another form."""
    found = []
    for topic, brokers in _items(value):
        for broker_name, queues in _items(brokers):
            if not isinstance(queues, list) or not all(isinstance(queue, int) and queue >= 0 for queue in queues):
                raise ValueError(f"{queues!r} is no list of queues")
            found += [MessageQueue(broker_name, queue_id, topic) for queue_id in queues]
    return tuple(sorted(set(found), key=_by_topic))


def time_of(times: Any, queue: MessageQueue) -> int | None:
    """Returns the time for a queue of one for all, or of JSON that ends with times at topics, brokers or queues."""
    for name in (queue.topic, queue.broker_name, str(queue.queue_id)):
        if not isinstance(times, Mapping):
            break
        times = times.get(name)
    return times if isinstance(times, int) else None


def check_times(times: Any, depth: int = 3) -> None:
    """ValueError if this is not JSON of which `time_of` could tell times."""
    if isinstance(times, dict) and depth:
        for value in times.values():
            check_times(value, depth - 1)
    elif isinstance(times, bool) or not isinstance(times, int) or times < 0:
        raise ValueError(f"{times!r} is no time in milliseconds")


@dataclass(frozen=True)
class Place:
    """How far a stream has come: what a checkpoint keeps of it.

    `begins` says where queues begin that are new in this batch. So a batch that is run again after a crash reads the
    same messages, whatever `latest` has come to mean since. `anew` says where this batch begins in queues that it does
    not go on with where the last one ended.
    """

    offsets: Offsets = field(default_factory=dict)
    begins: Offsets = field(default_factory=dict)
    anew: Offsets = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        anew = {_ANEW: to_json(self.anew)} if self.anew else {}
        return {**anew, _BEGIN: to_json(self.begins), **to_json(self.offsets)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Place":
        offsets = {topic: brokers for topic, brokers in value.items() if topic not in (_BEGIN, _ANEW)}
        return cls(from_json(offsets), from_json(value.get(_BEGIN, {})), from_json(value.get(_ANEW, {})))


def ranges(start: Place, end: Place) -> list[QueueRange]:
    """Returns what lies between two places; where an offset would go backwards, that is nothing."""
    found = []
    for queue in sorted(end.offsets, key=_by_topic):
        first = end.anew.get(queue, start.offsets.get(queue, end.begins.get(queue)))
        if first is not None and first < end.offsets[queue]:
            found.append(range_of(queue, first, end.offsets[queue]))
    return found


def listed(queues: Iterable[MessageQueue], most: int = 5) -> str:
    """Returns the names of queues for people to read."""
    names = [f"{queue.topic} {queue.broker_name} {queue.queue_id}" for queue in sorted(queues, key=_by_topic)]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _by_topic(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is no JSON object")
    return value.items()
