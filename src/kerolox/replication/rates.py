"""Bytes per second (FlowMonitor)."""

from kerolox.runtime.clock import Clock


class ByteRate:
    """Counts bytes by second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = int(clock.monotonic())
        self._count = 0
        self._last_count = 0

    def add(self, count: int) -> None:
        self._turn()
        self._count += count

    @property
    def in_this_second(self) -> int:
        self._turn()
        return self._count

    @property
    def in_last_second(self) -> int:
        """Bytes in the last second that has ended."""
        self._turn()
        return self._last_count

    @property
    def second_left(self) -> float:
        """Seconds until the next one begins."""
        return int(self._clock.monotonic()) + 1 - self._clock.monotonic()

    def _turn(self) -> None:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._last_count = self._count if second == self._second + 1 else 0
            self._second, self._count = second, 0
