"""Counters by labels, and histograms: servers add to them, the metrics exporter reads them."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

# Labels come from clients: beyond this number of combinations, new ones are counted together as OTHER.
KEYS_MAX = 10_000
# The label of everything that has no series of its own.
OTHER = "other"

Labels = tuple[str, ...]


class LabelCounter:
    """One counter per combination of labels."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self.counts: dict[Labels, int] = {}

    def add(self, *labels: str, count: int = 1) -> None:
        counts = self.counts
        if labels not in counts and len(counts) >= self._keys_max:
            labels = (OTHER,) * len(labels)
        counts[labels] = counts.get(labels, 0) + count


class Histogram:
    """The number of values in each bucket, and their sum. A bucket holds the values up to its bound, included."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        # The last bucket counts the values above all bounds.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def merge(self, other: "Histogram") -> None:
        self.counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


class Histograms:
    """One histogram per combination of labels, all with the same bounds."""

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
