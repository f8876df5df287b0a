"""Limits that the servers of a process share: connections, incomplete frames, and log lines about refused peers."""

import logging
import resource
from collections.abc import Callable
from typing import Protocol

from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

# Descriptors for everything but connections and the bounded store files: key index, tables, log, pipes, and our own
# outgoing connections.
_DESCRIPTORS_RESERVED = 200
# If the system sets no limit.
_CONNECTIONS_MAX = 1_000_000
# At most one log line about refused connections per this time.
_LINE_SECONDS = 60.0
# Once the bytes of incomplete frames exceed their limit, 1/16 of it is freed in addition. Finding the largest frames
# looks at all connections, which must not happen at every read while a peer keeps the total at the limit.
_FREED_PART = 16


class ConnectionLimit:
    """Counts the connections, and the bytes of incomplete frames, of all servers that share it.

    Sockets must leave descriptors to the store. If `connections_max` is 0, it becomes the limit on open files minus
    the `files_max` that others need, but at least half of that limit.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        connections_max: int = 0,
        files_max: int = 0,
        partial_bytes_max: int = 256 * 1024 * 1024,
    ) -> None:
        self._clock = clock
        self._files_max = files_max
        self.connections_max = connections_max
        self.count = 0
        self._refused = 0
        self._logged_at: float | None = None
        # Limits the log lines about peers that are closed because of what they sent.
        self.log_limit = LogLimit(clock, "closed connections")
        self.partial_frames = PartialFrames(partial_bytes_max, self._log_partial)

    def open(self) -> None:
        """Compute the limit; call it after the limit on open files has been raised."""
        if not self.connections_max:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            left = max(limit - self._files_max - _DESCRIPTORS_RESERVED, limit // 2)
            self.connections_max = _CONNECTIONS_MAX if limit == resource.RLIM_INFINITY else left
            log.debug("accepting at most %d connections", self.connections_max)

    def admits(self, remote: object) -> bool:
        """Whether one more connection may be accepted."""
        if self.count < self.connections_max:
            return True
        self._refused += 1
        now = self._clock.monotonic()
        if self._logged_at is None or now - self._logged_at >= _LINE_SECONDS:
            log.warning(
                "refused %s: %d connections are open, at most %d allowed (serverConnectionsMax); "
                "%d refused since the last such line",
                *(remote, self.count, self.connections_max, self._refused),
            )
            self._logged_at, self._refused = now, 0
        return False

    def _log_partial(self, holder: "Holder", size: int) -> None:
        log.log(
            self.log_limit.level(),
            "closed %s: incomplete frames hold %d bytes, at most %d allowed (partialFrameBytesMax)",
            *(holder.remote, size, self.partial_frames.size_max),
        )


class Holder(Protocol):
    """A connection with an incomplete frame."""

    remote: str

    def abort(self) -> None:
        """Close the connection at once, and update its count to 0."""


class PartialFrames:
    """Counts the bytes of incomplete frames of all connections as they arrive; above the limit, closes the largest."""

    def __init__(self, size_max: int, on_closed: Callable[[Holder, int], None]) -> None:
        self.size_max = size_max
        self.size = 0
        self._on_closed = on_closed
        self._sizes: dict[Holder, int] = {}

    def update(self, holder: Holder, size: int) -> None:
        """Set the number of bytes that `holder` has of an incomplete frame."""
        self.size += size - self._sizes.pop(holder, 0)
        if size:
            self._sizes[holder] = size
            if self.size > self.size_max:
                self._close_largest()

    def _close_largest(self) -> None:
        for holder in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            self._on_closed(holder, self.size)
            holder.abort()
            if self.size <= self.size_max - self.size_max // _FREED_PART:
                return


class LogLimit:
    """Rate limit for log lines that clients can cause.

    The first lines of each interval are logged, and at its end how many were suppressed.
    """

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
