"""Offsets of many queues, and their JSON in options and checkpoints."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kerolox.wire.bodies.queues import MessageQueue

# Special offsets, as in Spark's Kafka source.
LATEST: Final = -1
EARLIEST: Final = -2

# Keys of a checkpoint besides topics, whose names cannot contain "@".
_BEGIN: Final = "@begin"
_RECREATED: Final = "@anew"
_BEHIND: Final = "@behind"
_RETIRED: Final = "@retired"
_RETIRED_AT: Final = "@retiredAt"

Offsets = dict[MessageQueue, int]


class QueueRange(NamedTuple):
    """Messages of one queue, from `start` to before `end`."""

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


def queue_range(queue: MessageQueue, start: int, end: int) -> QueueRange:
    return QueueRange(queue.topic, queue.broker_name, queue.queue_id, start, end)


def to_json(offsets: Mapping[MessageQueue, int]) -> dict[str, Any]:
    """Return `{topic: {broker: {queue: offset}}}`, sorted: Spark compares offsets as text."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets, key=_by_topic):
        found.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return found


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Parse the JSON of `to_json`; ValueError if it has another form."""
    found: Offsets = {}
    for topic, brokers in _items(value):
        for broker_name, queues in _items(brokers):
            for queue_id, offset in _items(queues):
                if isinstance(offset, bool) or not isinstance(offset, int):
                    raise ValueError(f"{offset!r} is not an offset")
                found[MessageQueue(broker_name, int(queue_id), topic)] = offset
    return found


def queues_from_json(value: Mapping[str, Any]) -> tuple[MessageQueue, ...]:
    """Parse `{topic: {broker: [queue]}}`; ValueError if it has another form."""
    found = []
    for topic, brokers in _items(value):
        for broker_name, queues in _items(brokers):
            if not isinstance(queues, list) or not all(isinstance(queue, int) and queue >= 0 for queue in queues):
                raise ValueError(f"{queues!r} is not a list of queues")
            found += [MessageQueue(broker_name, queue_id, topic) for queue_id in queues]
    return tuple(sorted(set(found), key=_by_topic))


def timestamp_of(times: Any, queue: MessageQueue) -> int | None:
    """Return the time for a queue; `times` is one number, or JSON with numbers per topic, broker or queue."""
    for name in (queue.topic, queue.broker_name, str(queue.queue_id)):
        if not isinstance(times, Mapping):
            break
        times = times.get(name)
    return times if isinstance(times, int) else None


def check_timestamps(times: Any, depth: int = 3) -> None:
    """ValueError if `times` is not valid for `timestamp_of`."""
    if isinstance(times, dict) and depth:
        for value in times.values():
            check_timestamps(value, depth - 1)
    elif isinstance(times, bool) or not isinstance(times, int) or times < 0:
        raise ValueError(f"{times!r} is not a time in milliseconds")


@dataclass(frozen=True)
class StreamPosition:
    """The position of a stream, which Spark keeps in the checkpoint of its query.

    `begins` holds the first offsets of queues that are new in this batch, so that a batch that is run again after a
    crash reads the same messages. `recreated` holds the first offsets of queues that were created again.

    `behind` holds the ends of those queues that were known to have more messages than were read; a queue that
    disappears without being in it has been read completely. None if the checkpoint is older than this field.
    `retired` holds queues that no longer exist with the offset that was reached, and `retired_at` when that was found
    out, in milliseconds. A retired queue that comes back continues at its offset.
    """

    offsets: Offsets = field(default_factory=dict)
    begins: Offsets = field(default_factory=dict)
    recreated: Offsets = field(default_factory=dict)
    behind: Offsets | None = None
    retired: Offsets = field(default_factory=dict)
    retired_at: Offsets = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        found = {_RECREATED: to_json(self.recreated)} if self.recreated else {}
        found[_BEGIN] = to_json(self.begins)
        if self.behind is not None:
            found[_BEHIND] = to_json(self.behind)
        if self.retired:
            found |= {_RETIRED: to_json(self.retired), _RETIRED_AT: to_json(self.retired_at)}
        return found | to_json(self.offsets)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StreamPosition":
        return cls(
            from_json({topic: brokers for topic, brokers in value.items() if not topic.startswith("@")}),
            from_json(value.get(_BEGIN, {})),
            from_json(value.get(_RECREATED, {})),
            from_json(value[_BEHIND]) if _BEHIND in value else None,
            from_json(value.get(_RETIRED, {})),
            from_json(value.get(_RETIRED_AT, {})),
        )


def ranges_between(start: StreamPosition, end: StreamPosition) -> list[QueueRange]:
    """Return the ranges between two positions; a queue whose offset would go backwards has none."""
    found = []
    for queue in sorted(end.offsets, key=_by_topic):
        first = end.recreated.get(queue, start.offsets.get(queue, end.begins.get(queue)))
        if first is not None and first < end.offsets[queue]:
            found.append(queue_range(queue, first, end.offsets[queue]))
    return found


def format_queues(queues: Iterable[MessageQueue], count_max: int = 5) -> str:
    """Return the names of the first few queues, for messages."""
    names = [f"{queue.topic} {queue.broker_name} {queue.queue_id}" for queue in sorted(queues, key=_by_topic)]
    return ", ".join(names[:count_max]) + (f" and {len(names) - count_max} more" if len(names) > count_max else "")


def _by_topic(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a JSON object")
    return value.items()
