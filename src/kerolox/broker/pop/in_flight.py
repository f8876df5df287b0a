"""Counts of messages that are popped but neither acknowledged nor revived (PopInflightMessageCounter)."""

from kerolox.broker.pop.checkpoints import Checkpoint

# A limit that RocketMQ does not have; messages of further queues are not counted.
_QUEUES_MAX = 100_000

_Key = tuple[str, str, int]


class InFlightCounts:
    """Counts by topic, group and queue. Messages that were popped before the broker started are not counted."""

    def __init__(self, started_millis: int) -> None:
        self._started_millis = started_millis
        self._counts: dict[_Key, int] = {}

    def count(self, topic: str, group: str, queue_id: int) -> int:
        return self._counts.get((topic, group, queue_id), 0)

    def popped(self, topic: str, group: str, queue_id: int, pop_time: int, count: int) -> None:
        # The pop time is before the start if the clock was set back.
        self._started_millis = min(self._started_millis, pop_time)
        key = topic, group, queue_id
        counted = self._counts.get(key)
        if counted is not None or len(self._counts) < _QUEUES_MAX:
            self._counts[key] = (counted or 0) + count

    def settled(self, topic: str, group: str, queue_id: int, pop_time: int, count: int = 1) -> None:
        key = topic, group, queue_id
        if pop_time < self._started_millis or key not in self._counts:
            return
        self._counts[key] -= count
        if self._counts[key] <= 0:
            del self._counts[key]

    def revived(self, checkpoint: Checkpoint, count: int = 1) -> None:
        self.settled(checkpoint.topic, checkpoint.group, checkpoint.queue_id, checkpoint.pop_time, count)

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        self._counts.pop((topic, group, queue_id), None)
