"""Number of pending timer messages by topic: config/timermetrics (TimerMetrics)."""

import logging
from pathlib import Path

import msgspec

from kerolox.runtime.files import Disk
from kerolox.runtime.metrics.counters import Histograms, LabelCounter
from kerolox.runtime.text import fastjson
from kerolox.store.errors import StoreDamaged
from kerolox.store.tables import JsonTable

log = logging.getLogger(__name__)


class DataVersion(msgspec.Struct, rename="camel"):
    counter: int = 0
    state_version: int = 0
    timestamp: int = 0


class Metric(msgspec.Struct, rename="camel"):
    count: int = 0
    time_stamp: int = 0


class TimerCounts(msgspec.Struct, rename="camel"):
    """The content of the file."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    timing_count: dict[str, Metric] = msgspec.field(default_factory=dict)


class _Table(JsonTable[TimerCounts]):
    def encode(self, value: TimerCounts) -> bytes:
        """RocketMQ writes this table without whitespace, unlike its other tables."""
        return fastjson.encode(value)


# Bounds in seconds of Java's delay histogram (DefaultStoreMetricsManager).
_WAIT_SECONDS = (60, 600, 3600, 43_200, 86_400, 259_200)


class TimerMetrics:
    """Counts in memory, saved regularly. After a crash they may be slightly off."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._table = _Table(disk, path, TimerCounts)
        self._counts = TimerCounts()
        self._is_changed = False
        # Since startup, by topic: messages enqueued or too late for that; messages delivered or rolled.
        self.enqueued, self.delivered = LabelCounter(), LabelCounter()
        self.waits = Histograms(_WAIT_SECONDS)

    def load(self) -> bool:
        """Read the file; False if neither it nor its backup is readable, so that messages must be counted again."""
        self._counts = TimerCounts()
        try:
            self._counts = self._table.load() or self._counts
        except StoreDamaged as error:
            log.warning("timer: %s; counting pending messages again", error)
            return False
        return True

    def count(self, topic: str) -> int:
        """Return the number of pending messages of a topic."""
        metric = self._counts.timing_count.get(topic)
        return metric.count if metric is not None else 0

    @property
    def counts(self) -> TimerCounts:
        return self._counts

    @property
    def pending_count(self) -> int:
        """Number of pending messages of all topics."""
        return sum(metric.count for metric in self._counts.timing_count.values())

    def add(self, topic: str, count: int, now: int) -> None:
        metric = self._counts.timing_count.setdefault(topic, Metric())
        metric.count += count
        metric.time_stamp = now
        version = self._counts.data_version
        version.counter += 1
        version.timestamp = now
        self._is_changed = True

    @property
    def version(self) -> int:
        """Increases with every change."""
        return self._counts.data_version.counter

    def replace_counts(self, counts: dict[str, int], now: int) -> None:
        """Replace the counts by those of a recount."""
        kept = self._counts.timing_count
        for topic in kept.keys() | counts.keys():
            if self.count(topic) != counts.get(topic, 0):
                kept[topic] = Metric(counts.get(topic, 0), now)
        self._counts.data_version.counter += 1
        self._counts.data_version.timestamp = now
        self._is_changed = True

    def follow(self, content: bytes) -> None:
        """Take over the counts of a master; ProtocolError if they cannot be read."""
        self._counts = fastjson.decode(content, TimerCounts)

    def take_content(self) -> bytes | None:
        """Return the content to save in a thread; None if nothing has changed."""
        if not self._is_changed:
            return None
        self._is_changed = False
        return self._table.encode(self._counts)

    def mark_changed(self) -> None:
        """Mark the counts as changed again after `save` failed."""
        self._is_changed = True

    def save(self, content: bytes) -> None:
        self._table.save(content)
