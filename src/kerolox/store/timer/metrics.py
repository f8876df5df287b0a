"""How many messages wait for each topic, as `config/timermetrics` keeps it."""

from pathlib import Path

import msgspec

from kerolox.runtime import fastjson
from kerolox.runtime.files import Disk
from kerolox.runtime.tallies import Histograms, Tally
from kerolox.store.tables import JsonTable


class DataVersion(msgspec.Struct, rename="camel"):
    counter: int = 0
    state_version: int = 0
    timestamp: int = 0


class Metric(msgspec.Struct, rename="camel"):
    count: int = 0
    time_stamp: int = 0


class TimerCounts(msgspec.Struct, rename="camel"):
    """The whole file."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    timing_count: dict[str, Metric] = msgspec.field(default_factory=dict)


class _Table(JsonTable[TimerCounts]):
    def encode(self, value: TimerCounts) -> bytes:
        """Unlike its other tables, RocketMQ writes this one without blanks."""
        return fastjson.encode(value)


# How long messages are to wait, in seconds, as Java tells apart (DefaultStoreMetricsManager).
_WAIT_SECONDS = (60, 600, 3600, 43_200, 86_400, 259_200)


class TimerMetrics:
    """Counts in memory, and the file they are written to every so often. A crash may leave them a little off."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._table = _Table(disk, path, TimerCounts)
        self._counts = TimerCounts()
        self._is_changed = False
        # Since the start, by topic: what was entered, or late for that; what was delivered, or went another round.
        self.entered, self.delivered = Tally(), Tally()
        self.waits = Histograms(_WAIT_SECONDS)

    def load(self) -> None:
        """StoreDamaged if neither the file nor its backup can be read."""
        self._counts = self._table.load() or TimerCounts()

    def count(self, topic: str) -> int:
        """Returns how many messages wait for a topic."""
        metric = self._counts.timing_count.get(topic)
        return metric.count if metric is not None else 0

    @property
    def counts(self) -> TimerCounts:
        return self._counts

    @property
    def waiting(self) -> int:
        """How many messages wait, for whatever topic."""
        return sum(metric.count for metric in self._counts.timing_count.values())

    def add(self, topic: str, count: int, now: int) -> None:
        metric = self._counts.timing_count.setdefault(topic, Metric())
        metric.count += count
        metric.time_stamp = now
        version = self._counts.data_version
        version.counter += 1
        version.timestamp = now
        self._is_changed = True

    def keep_only(self, topics: set[str]) -> None:
        """Forgets topics that no longer exist; system topics stay."""
        counts = self._counts.timing_count
        gone = [topic for topic in counts if topic not in topics and not topic.startswith(("rmq_sys_", "%LMQ%"))]
        for topic in gone:
            del counts[topic]
        self._is_changed |= bool(gone)

    @property
    def version(self) -> int:
        """Changes with every count."""
        return self._counts.data_version.counter

    def recounted(self, counts: dict[str, int], now: int) -> None:
        """Takes over what was counted anew."""
        kept = self._counts.timing_count
        for topic in kept.keys() | counts.keys():
            if self.count(topic) != counts.get(topic, 0):
                kept[topic] = Metric(counts.get(topic, 0), now)
        self._counts.data_version.counter += 1
        self._counts.data_version.timestamp = now
        self._is_changed = True

    def take(self) -> bytes | None:
        """Returns what is to be saved, in a thread; None if nothing has changed since."""
        if not self._is_changed:
            return None
        self._is_changed = False
        return self._table.encode(self._counts)

    def put_back(self) -> None:
        """Counts as changed again what could not be saved."""
        self._is_changed = True

    def save(self, content: bytes) -> None:
        self._table.save(content)
