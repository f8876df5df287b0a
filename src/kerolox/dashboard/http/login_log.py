"""Log lines about logins, limited in number so that failed attempts cannot fill the log."""

import logging

from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

# Limit per period for each kind of line.
LINES_MAX = 20
PERIOD_SECONDS = 60.0


class LoginLog:
    """Each kind of line has its own limit: a flood of failed logins does not hide the one that succeeds."""

    def __init__(self, clock: Clock) -> None:
        self._succeeded = _LimitedLines(clock, "logins")
        self._failed = _LimitedLines(clock, "failed logins")
        self._refused = _LimitedLines(clock, "logins refused during back-off")

    def succeeded(self, user: str, address: str) -> None:
        self._succeeded.write(logging.INFO, "user %r logged in from %s", user, address)

    def failed(self, user: str, address: str) -> None:
        self._failed.write(logging.WARNING, "login of user %r from %s failed: wrong name or password", user, address)

    def refused(self, user: str, address: str, wait_seconds: float) -> None:
        text = "login of user %r from %s refused: too many failed logins, wait %.0f s"
        self._refused.write(logging.WARNING, text, user, address, wait_seconds)


class _LimitedLines:
    def __init__(self, clock: Clock, subject: str) -> None:
        self._clock = clock
        self._subject = subject
        self._period_begin = float("-inf")
        self._count = 0

    def write(self, level: int, text: str, *values: object) -> None:
        now = self._clock.monotonic()
        if now - self._period_begin >= PERIOD_SECONDS:
            if self._count > LINES_MAX:
                log.warning("%d %s were not logged", self._count - LINES_MAX, self._subject)
            self._period_begin, self._count = now, 0
        self._count += 1
        if self._count <= LINES_MAX:
            log.log(level, text, *values)
        elif self._count == LINES_MAX + 1:
            log.warning(
                "more than %d %s within %.0f s: the rest is only counted", LINES_MAX, self._subject, PERIOD_SECONDS
            )
