"""Counts by labels, and histograms: what parts of a server add to, and metrics are told from."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

# So many labels are counted one by one, and the others together: they come from outside.
KEYS_MAX = 10_000
# What those are called together that have no series of their own.
OTHER = "other"

Labels = tuple[str, ...]


class Tally:
    """Counters by their labels."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self.counts: dict[Labels, int] = {}

    def add(self, *labels: str, count: int = 1) -> None:
        counts = self.counts
        if labels not in counts and len(counts) >= self._keys_max:
            labels = (OTHER,) * len(labels)
        counts[labels] = counts.get(labels, 0) + count


class Histogram:
    """How many values were at most as large as each bound, and what they are together."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        # The last is of those beyond all bounds.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def merge(self, other: "Histogram") -> None:
        self.counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


class Histograms:
    """Histograms with the same bounds, by their labels."""

    def __init__(self, bounds: Sequence[float], keys_max: int = KEYS_MAX // 10) -> None:
        self.bounds = bounds
        self._keys_max = keys_max
        self._by_labels: dict[Labels, Histogram] = {}

    def add(self, value: float, *labels: str) -> None:
        found = self._by_labels.get(labels)
        if found is None:
            if len(self._by_labels) >= self._keys_max:
                labels = (OTHER,) * len(labels)
            found = self._by_labels.setdefault(labels, Histogram(self.bounds))
        found.add(value)

    def items(self) -> Iterable[tuple[Labels, Histogram]]:
        return list(self._by_labels.items())
