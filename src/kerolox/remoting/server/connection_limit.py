"""Limits that the servers of a process share: connections, incomplete frames, and log lines about refused peers."""

import logging
import resource

from kerolox.remoting.server.partial_frames import Holder, PartialFrames
from kerolox.runtime.clock import Clock
from kerolox.runtime.log_limit import LogLimit

log = logging.getLogger(__name__)

# Descriptors for everything but connections and the bounded store files: key index, tables, log, pipes, and our own
# outgoing connections.
_DESCRIPTORS_RESERVED = 200
# If the system sets no limit.
_CONNECTIONS_MAX = 1_000_000
# At most one log line about refused connections per this time.
_LINE_SECONDS = 60.0


class ConnectionLimit:
    """Counts the connections, and the bytes of incomplete frames, of all servers that share it.

    Sockets must leave descriptors to the store. If `connections_max` is 0, it is what the limit on open files leaves
    when `files_max` of them are kept for others, and half of it at least.
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
        """Computes the limit; call it after the limit on open files has been raised."""
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

    def _log_partial(self, holder: Holder, size: int) -> None:
        log.log(
            self.log_limit.level(),
            "closed %s: incomplete frames hold %d bytes, at most %d allowed (partialFrameBytesMax)",
            *(holder.remote, size, self.partial_frames.size_max),
        )
