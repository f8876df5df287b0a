"""Gives up those who have waited too long for the next file of the commit log."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence

from kerolox.store.errors import WaitedTooLong
from kerolox.store.log.commit_log import Draft
from kerolox.store.log.promises import Senders, tell_refused

# How often it looks; the original looks as often.
_TICK_SECONDS = 0.01


class Stall:
    """Lasts as long as nothing can be appended; one timer for all who wait.

    Whoever is given up is told so, and is no longer among the `gathered`: what was refused is not stored later.
    """

    def __init__(self, gathered: list[tuple[Sequence[Draft], Senders]], patience_seconds: Callable[[], float]) -> None:
        self._gathered = gathered
        self._patience_seconds = patience_seconds
        self._loop = asyncio.get_running_loop()
        # When each of the gathered came.
        self._since = [self._loop.time()] * len(gathered)
        self.size = sum(size_of(drafts) for drafts, _ in gathered)
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)

    def note(self, drafts: Sequence[Draft]) -> None:
        """Notes that more wait."""
        self._since.append(self._loop.time())
        self.size += size_of(drafts)

    def end(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        now = self._loop.time()
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)
        count = bisect_right(self._since, now - self._patience_seconds())
        late, since = self._gathered[:count], self._since[:count]
        waiting = sum(len(drafts) for drafts, _ in self._gathered)
        del self._gathered[:count], self._since[:count]
        for (drafts, senders), came in zip(late, since, strict=True):
            self.size -= size_of(drafts)
            tell_refused(senders, 0, len(drafts), WaitedTooLong(round((now - came) * 1000), waiting))


def size_of(drafts: Sequence[Draft]) -> int:
    """Returns how many bytes drafts take in the log."""
    return sum([len(draft.records) for draft in drafts])
