"""What was counted, looked at every so often: how much came in the last minute, hour and day."""

from typing import NamedTuple


class Values(NamedTuple):
    messages: int = 0
    size: int = 0
    requests: int = 0
    # The time that the requests took.
    seconds: float = 0.0


class Window(NamedTuple):
    """How often a counter is looked at, and how many looks are remembered; as in the original (StatsItem)."""

    seconds: int
    samples_max: int


MINUTE, HOUR, DAY = 0, 1, 2
WINDOWS = (Window(10, 7), Window(600, 7), Window(3600, 25))

_NOTHING = Values()


class Traffic:
    """Counts of one topic, or of one group and topic. Whoever counts only adds to its members."""

    __slots__ = ("_kept", "batched", "is_system", "messages", "nanos", "seconds", "size")

    def __init__(self, *, is_system: bool = False) -> None:
        self.is_system = is_system
        self.messages = 0
        # Messages that came or went with another in one request: mostly there are none, and nothing is to be added.
        self.batched = 0
        self.size = 0
        # The time that requests took is the sum of both.
        self.seconds = 0.0
        self.nanos = 0
        # For each window the last looks; where they are all alike, one of them, so that who is idle takes no room.
        self._kept: list[list[Values] | Values] = [[_NOTHING] for _ in WINDOWS]

    @property
    def requests(self) -> int:
        return self.messages - self.batched

    @property
    def values(self) -> Values:
        return Values(self.messages, self.size, self.requests, self.seconds + self.nanos / 1e9)

    def sample(self, at: int) -> None:
        """Takes a look for one of the windows."""
        kept = self._kept[at]
        if isinstance(kept, Values):
            if kept.requests == self.requests and kept.messages == self.messages:
                return
            kept = self._kept[at] = [kept] * WINDOWS[at].samples_max
        kept.append(self.values)
        if len(kept) > WINDOWS[at].samples_max:
            del kept[0]
            if kept[0] == kept[-1]:
                self._kept[at] = kept[0]

    @property
    def is_idle(self) -> bool:
        """Whether nothing has come for a day."""
        return isinstance(self._kept[DAY], Values)

    def part(self, at: int, member: str) -> "Part":
        """Returns what came of a member within a window, as far as it was looked at."""
        kept = self._kept[at]
        if isinstance(kept, Values) or len(kept) < 2:
            return Part(0, 0.0, 0.0)
        total = getattr(kept[-1], member) - getattr(kept[0], member)
        if member == "seconds":
            # Told in milliseconds.
            total = int(total * 1000)
        requests = kept[-1].requests - kept[0].requests
        seconds = (len(kept) - 1) * WINDOWS[at].seconds
        return Part(total, total / seconds, total / requests if requests else 0.0)


class Part(NamedTuple):
    """The sum of a window, and that in a second, and in a request."""

    sum: int
    per_second: float
    per_request: float
