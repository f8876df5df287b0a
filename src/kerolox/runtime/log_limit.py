"""Rate limit for log lines that clients can cause."""

import logging

from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)


class LogLimit:
    """Lets the first lines of each interval through, and logs at its end how many were suppressed."""

    def __init__(self, clock: Clock, subject: str, *, lines_max: int = 10, seconds: float = 60.0) -> None:
        self._clock = clock
        self._subject = subject
        self._lines_max = lines_max
        self._seconds = seconds
        self._interval_end = 0.0
        self._count = 0

    def level(self) -> int:
        """Return the level for the next line: WARNING, or DEBUG once this interval had `lines_max`."""
        self.report()
        if not self._count:
            self._interval_end = self._clock.monotonic() + self._seconds
        self._count += 1
        return logging.WARNING if self._count <= self._lines_max else logging.DEBUG

    def report(self) -> None:
        """Log how many lines were suppressed, if the interval has ended. Call it periodically."""
        if self._count and self._clock.monotonic() >= self._interval_end:
            suppressed, self._count = self._count - self._lines_max, 0
            if suppressed > 0:
                log.warning("%d more lines about %s in the last %g s", suppressed, self._subject, self._seconds)
