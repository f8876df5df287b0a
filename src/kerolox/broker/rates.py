"""How fast messages come and go, and how long it takes to store them, as the original's StoreStatsService tells."""

from bisect import bisect_right
from collections import Counter, deque
from typing import NamedTuple

from kerolox.runtime.tallies import Histogram

# The rates of the last 10, 60 and 600 seconds are told.
_SPANS_SECONDS = (10, 60, 600)

# The classes in which a tool shows latencies: those below so many milliseconds.
_LIMITS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_NAMES = (
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
# So many microseconds are told apart, and what took longer is not.
_MICROS_MAX = 10_000_000
# The milliseconds that a histogram tells apart; from 1 on they are those of Java's rocketmq_rpc_latency.
_MILLIS = (0.05, 0.1, 0.25, 0.5, 1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
# A millisecond, and what rounding may make of just less than one.
FAST_SIZE = 1001


class Totals(NamedTuple):
    """What was counted up to a moment."""

    millis: int
    put: int
    found: int
    missed: int
    transferred: int


class Rates:
    """Totals of each second, for ten minutes."""

    def __init__(self, millis: int) -> None:
        self._totals: deque[Totals] = deque([Totals(millis, 0, 0, 0, 0)], maxlen=_SPANS_SECONDS[-1] + 1)

    def sample(self, totals: Totals) -> None:
        self._totals.append(totals)

    def told(self, *members: str) -> str:
        """Returns the three rates as tools read them; of a younger broker, those since it has begun.

        The original leaves out what it cannot say yet, and tools stumble over that.
        """
        return " ".join(str(self._rate(span, members)) for span in _SPANS_SECONDS)

    def _rate(self, seconds: int, members: tuple[str, ...]) -> float:
        last = self._totals[-1]
        first = self._totals[max(0, len(self._totals) - 1 - seconds)]
        millis = last.millis - first.millis
        count: int = sum(getattr(last, member) - getattr(first, member) for member in members)
        return count * 1000 / millis if millis > 0 else 0.0


class Latencies:
    """How long requests took to be stored: in this minute, and in the one before, of which is told."""

    def __init__(self) -> None:
        # Whoever counts adds each request to one of these, and to nothing else: those that took less than a
        # millisecond by microseconds, others by tenths of a millisecond.
        self.fast = [0] * FAST_SIZE
        self.slow: dict[int, int] = {}
        self._max_millis = 0
        # By microseconds.
        self._told: Counter[int] = Counter()
        self._passed = 0
        # Of all minutes before this one.
        self._before = Histogram(_MILLIS)

    @property
    def requests(self) -> int:
        """How many there ever were."""
        return self._passed + sum(self.fast) + sum(self.slow.values())

    @property
    def max_millis(self) -> int:
        return max(self._max_millis, max(self.slow, default=0) // 10)

    def turn(self) -> None:
        """Begins the next minute."""
        self._passed, self._max_millis = self.requests, self.max_millis
        self._told = Counter({micros: count for micros, count in enumerate(self.fast) if count})
        for tenths, count in self.slow.items():
            self._told[min(tenths * 100, _MICROS_MAX)] += count
        self._before = self.histogram()
        self.fast[:] = [0] * FAST_SIZE
        self.slow.clear()

    def histogram(self) -> Histogram:
        """Returns how many milliseconds all requests took that there ever were."""
        histogram = Histogram(_MILLIS)
        histogram.merge(self._before)
        for micros, count in enumerate(self.fast):
            if count:
                histogram.add(micros / 1000, count)
        for tenths, count in self.slow.items():
            histogram.add(tenths / 10, count)
        return histogram

    @property
    def distribution(self) -> str:
        counts = [0] * len(_NAMES)
        for micros, count in self._told.items():
            counts[bisect_right(_LIMITS, micros // 1000)] += count
        return "".join(f"{name}:{count} " for name, count in zip(_NAMES, counts, strict=True))

    def percentile(self, share: float) -> float:
        """Returns how many milliseconds at most this share of the requests took."""
        wanted = self._told.total() * share
        passed = 0
        for micros, count in sorted(self._told.items()):
            passed += count
            if passed >= wanted:
                return micros / 1000
        return 0.0
