"""How many connections the servers of a process accept together: sockets must leave descriptors to the store."""

import logging
import resource

from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

# What a process has open beside its connections and the files that have a bound: its key index, tables, log, pipes,
# and connections of its own.
_DESCRIPTORS_RESERVED = 200
# Where the system has no limit.
_CONNECTIONS_MAX = 1_000_000
# However many are turned away, there is one line in so long that says so.
_LINE_SECONDS = 60.0


class Crowd:
    """Counts the connections of all servers that share it.

    Without a bound it finds one: what the limit on open files leaves when `files_max` of them are kept for others, and
    half of it at least.
    """

    def __init__(self, clock: Clock, *, connections_max: int = 0, files_max: int = 0) -> None:
        self._clock = clock
        self._files_max = files_max
        self.connections_max = connections_max
        self.count = 0
        self._refused = 0
        self._said_at: float | None = None

    def open(self) -> None:
        """To be called when the limit on open files will not change any more."""
        if not self.connections_max:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            left = max(limit - self._files_max - _DESCRIPTORS_RESERVED, limit // 2)
            self.connections_max = _CONNECTIONS_MAX if limit == resource.RLIM_INFINITY else left
            log.debug("at most %d connections are accepted", self.connections_max)

    def admits(self, remote: object) -> bool:
        """Whether there is room for one more."""
        if self.count < self.connections_max:
            return True
        self._refused += 1
        now = self._clock.monotonic()
        if self._said_at is None or now - self._said_at >= _LINE_SECONDS:
            log.warning(
                "closed %s at once: %d connections are open, at most %d allowed (serverConnectionsMax); "
                "%d were closed so since the last of these lines",
                *(remote, self.count, self.connections_max, self._refused),
            )
            self._said_at, self._refused = now, 0
        return False
