"""Refuses sends that have waited too long for the next file of the commit log (BrokerFastFailure)."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence

from kerolox.store.errors import WaitedTooLong
from kerolox.store.log.commit_log import Append
from kerolox.store.log.pending_acks import Senders, notify_refused

# The interval at which BrokerFastFailure scans its queues, too.
_TICK_SECONDS = 0.01


class StalledAppends:
    """Exists while nothing can be appended; one timer serves all waiting senders.

    A sender that times out is refused with WaitedTooLong and its entry removed from `gathered`, the caller's list, so
    that a refused message is not stored later.
    """

    def __init__(self, gathered: list[tuple[Sequence[Append], Senders]], timeout_seconds: Callable[[], float]) -> None:
        self._gathered = gathered
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        # Arrival time of each entry of `gathered`.
        self._since = [self._loop.time()] * len(gathered)
        # Bytes that wait.
        self.size = sum(appends_size(appends) for appends, _ in gathered)
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)

    def add(self, appends: Sequence[Append]) -> None:
        """Count appends that the caller is about to add to `gathered`."""
        self._since.append(self._loop.time())
        self.size += appends_size(appends)

    def cancel(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        now = self._loop.time()
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)
        count = bisect_right(self._since, now - self._timeout_seconds())
        late, since = self._gathered[:count], self._since[:count]
        waiting = sum(len(appends) for appends, _ in self._gathered)
        del self._gathered[:count], self._since[:count]
        for (appends, senders), arrived in zip(late, since, strict=True):
            self.size -= appends_size(appends)
            notify_refused(senders, 0, len(appends), WaitedTooLong(round((now - arrived) * 1000), waiting))


def appends_size(appends: Sequence[Append]) -> int:
    """Return the total size of the records in bytes."""
    return sum([len(append.records) for append in appends])
