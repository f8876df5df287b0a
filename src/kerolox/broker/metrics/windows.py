"""Traffic counters with sliding windows of a minute, an hour and a day (StatsItem)."""

from typing import NamedTuple


class Values(NamedTuple):
    """A sample of the counters; `seconds` is the total duration of the requests."""

    messages: int = 0
    size: int = 0
    requests: int = 0
    seconds: float = 0.0


class Window(NamedTuple):
    """Sampling interval and number of samples kept, as in Java."""

    seconds: int
    samples_max: int


MINUTE, HOUR, DAY = 0, 1, 2
WINDOWS = (Window(10, 7), Window(600, 7), Window(3600, 25))

_ZERO = Values()


class Traffic:
    """Counters of one topic, or of one topic and group. The hot path only adds to its attributes."""

    __slots__ = ("_samples", "batched", "is_system", "messages", "nanos", "seconds", "size")

    def __init__(self, *, is_system: bool = False) -> None:
        self.is_system = is_system
        self.messages = 0
        # Messages beyond the first of their request. Mostly there are none, so that the hot path counts only messages.
        self.batched = 0
        self.size = 0
        # The total duration of requests is the sum of both.
        self.seconds = 0.0
        self.nanos = 0
        # The last samples of each window. If they are all equal, only one of them, so that an idle topic takes no room.
        self._samples: list[list[Values] | Values] = [[_ZERO] for _ in WINDOWS]

    @property
    def requests(self) -> int:
        return self.messages - self.batched

    @property
    def values(self) -> Values:
        return Values(self.messages, self.size, self.requests, self.seconds + self.nanos / 1e9)

    def sample(self, window: int) -> None:
        """Take a sample for a window (MINUTE, HOUR or DAY)."""
        samples = self._samples[window]
        if isinstance(samples, Values):
            if samples.requests == self.requests and samples.messages == self.messages:
                return
            samples = self._samples[window] = [samples] * WINDOWS[window].samples_max
        samples.append(self.values)
        if len(samples) > WINDOWS[window].samples_max:
            del samples[0]
            if samples[0] == samples[-1]:
                self._samples[window] = samples[0]

    @property
    def is_idle(self) -> bool:
        """Whether nothing was counted for a day."""
        return isinstance(self._samples[DAY], Values)

    def window_stats(self, window: int, member: str) -> "WindowStats":
        """Return the growth of a member of Values within a window, as of its last sample."""
        samples = self._samples[window]
        if isinstance(samples, Values) or len(samples) < 2:
            return WindowStats(0, 0.0, 0.0)
        total = getattr(samples[-1], member) - getattr(samples[0], member)
        if member == "seconds":
            # Java reports milliseconds.
            total = int(total * 1000)
        requests = samples[-1].requests - samples[0].requests
        seconds = (len(samples) - 1) * WINDOWS[window].seconds
        return WindowStats(total, total / seconds, total / requests if requests else 0.0)


class WindowStats(NamedTuple):
    """The growth of a counter within a window: in total, per second and per request (StatsSnapshot)."""

    sum: int
    per_second: float
    per_request: float
