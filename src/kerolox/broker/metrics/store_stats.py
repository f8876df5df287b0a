"""Rates of puts and gets, and latencies of puts (StoreStatsService)."""

from bisect import bisect_right
from collections import Counter, deque
from typing import NamedTuple

from kerolox.runtime.metrics.counters import Histogram

# Rates are averages over these times.
_RATE_SECONDS = (10, 60, 600)

# Buckets of putMessageDistributeTime, by their upper bounds in milliseconds.
_DISTRIBUTION_BOUNDS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_DISTRIBUTION_NAMES = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)
# Longer latencies count as this.
_MICROS_MAX = 10_000_000
# Histogram buckets in milliseconds; from 1 on they are those of Java's rocketmq_rpc_latency.
_HISTOGRAM_MILLIS = (0.05, 0.1, 0.25, 0.5, 1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
# Microseconds below a millisecond, plus one because rounding may yield 1000.
_FAST_SIZE = 1001


class Totals(NamedTuple):
    """Counters since the start of the broker, at the time `millis`."""

    millis: int
    put: int
    found: int
    missed: int
    transferred: int


class StoreStats:
    """Totals of every second of the last ten minutes, and the rates computed from them."""

    def __init__(self, millis: int) -> None:
        self._totals: deque[Totals] = deque([Totals(millis, 0, 0, 0, 0)], maxlen=_RATE_SECONDS[-1] + 1)

    def sample(self, totals: Totals) -> None:
        """Add the totals of one second."""
        self._totals.append(totals)

    def rates(self, *members: str) -> str:
        """Return the rates over 10, 60 and 600 seconds, separated by spaces; of a younger broker, since its start.

        Java omits a rate that it cannot compute yet, which breaks tools that expect three.
        """
        return " ".join(str(self._rate(seconds, members)) for seconds in _RATE_SECONDS)

    def _rate(self, seconds: int, members: tuple[str, ...]) -> float:
        last = self._totals[-1]
        first = self._totals[max(0, len(self._totals) - 1 - seconds)]
        millis = last.millis - first.millis
        count: int = sum(getattr(last, member) - getattr(first, member) for member in members)
        return count * 1000 / millis if millis > 0 else 0.0


class PutLatencies:
    """Latencies of put requests. Percentiles and distribution are those of the last full minute.

    The hot path adds each request to `fast` or `slow` and to nothing else; all other numbers are derived from them.
    """

    def __init__(self) -> None:
        # Requests of this minute: by microseconds if shorter than a millisecond, else by tenths of a millisecond.
        self.fast = [0] * _FAST_SIZE
        self.slow: dict[int, int] = {}
        self._max_millis = 0
        # Requests of the last minute, by microseconds.
        self._last_minute: Counter[int] = Counter()
        # All requests before this minute.
        self._earlier_requests = 0
        self._earlier_histogram = Histogram(_HISTOGRAM_MILLIS)

    @property
    def requests(self) -> int:
        """Number of requests since the start of the broker."""
        return self._earlier_requests + sum(self.fast) + sum(self.slow.values())

    @property
    def max_millis(self) -> int:
        return max(self._max_millis, max(self.slow, default=0) // 10)

    def start_minute(self) -> None:
        """Make this minute the last one, and start the next."""
        self._earlier_requests, self._max_millis = self.requests, self.max_millis
        self._last_minute = Counter({micros: count for micros, count in enumerate(self.fast) if count})
        for tenths, count in self.slow.items():
            self._last_minute[min(tenths * 100, _MICROS_MAX)] += count
        self._earlier_histogram = self.histogram()
        # In place: the hot path holds a reference to each of them.
        self.fast[:] = [0] * _FAST_SIZE
        self.slow.clear()

    def histogram(self) -> Histogram:
        """Return the latencies of all requests since the start of the broker, in milliseconds."""
        histogram = Histogram(_HISTOGRAM_MILLIS)
        histogram.merge(self._earlier_histogram)
        for micros, count in enumerate(self.fast):
            if count:
                histogram.add(micros / 1000, count)
        for tenths, count in self.slow.items():
            histogram.add(tenths / 10, count)
        return histogram

    @property
    def distribution(self) -> str:
        """The last minute's requests by latency, in Java's format of putMessageDistributeTime."""
        counts = [0] * len(_DISTRIBUTION_NAMES)
        for micros, count in self._last_minute.items():
            counts[bisect_right(_DISTRIBUTION_BOUNDS, micros // 1000)] += count
        return "".join(f"{name}:{count} " for name, count in zip(_DISTRIBUTION_NAMES, counts, strict=True))

    def percentile(self, share: float) -> float:
        """Return the latency in milliseconds that `share` of the last minute's requests did not exceed."""
        rank = self._last_minute.total() * share
        passed = 0
        for micros, count in sorted(self._last_minute.items()):
            passed += count
            if passed >= rank:
                return micros / 1000
        return 0.0
