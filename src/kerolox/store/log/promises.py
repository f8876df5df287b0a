"""Senders who are told that a message is stored when it is durable, or when they have waited long enough."""

import asyncio
import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from kerolox.store.log.commit_log import Appended

log = logging.getLogger(__name__)

_end_offset = attrgetter("end_offset")


class Sender(Protocol):
    """Whoever put a message; told once what became of it."""

    def stored(self, appended: Appended, is_durable: bool) -> None: ...

    def refused(self, error: Exception) -> None: ...


class Senders(Protocol):
    """Those who put several messages at once, in the order in which they lie in the log.

    Told once of each what became of it: `first` is the number of the first that is meant.
    """

    def stored(self, first: int, appended: Sequence[Appended], is_durable: bool) -> None: ...

    def refused(self, first: int, count: int, error: Exception) -> None: ...


class One:
    """A single sender as one of several."""

    __slots__ = ("_sender",)

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def stored(self, first: int, appended: Sequence[Appended], is_durable: bool) -> None:
        self._sender.stored(appended[0], is_durable)

    def refused(self, first: int, count: int, error: Exception) -> None:
        self._sender.refused(error)


class Promises:
    """In the order in which messages lie in the log; one timer for all, since all wait equally long."""

    def __init__(self, *, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._waiting: deque[tuple[float, int, Sequence[Appended], Senders]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(len(appended) for _, _, appended, _ in self._waiting)

    def add(self, first: int, appended: Sequence[Appended], senders: Senders) -> None:
        """Notes who is to be told of what lies one after the other in the log."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        self._waiting.append((deadline, first, appended, senders))
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)

    def settle(self, durable_offset: int) -> None:
        """Tells those whose messages are durable."""
        waiting = self._waiting
        while waiting and waiting[0][2][0].end_offset <= durable_offset:
            deadline, first, appended, senders = waiting.popleft()
            if appended[-1].end_offset > durable_offset:
                # The sync began in the midst of them.
                count = bisect_right(appended, durable_offset, key=_end_offset)
                waiting.appendleft((deadline, first + count, appended[count:], senders))
                appended = appended[:count]
            tell_stored(senders, first, appended, is_durable=True)
        self._disarm()

    def fail(self, error: Exception) -> None:
        """Tells all that nobody knows what became of their messages."""
        while self._waiting:
            _, first, appended, senders = self._waiting.popleft()
            tell_refused(senders, first, len(appended), error)
        self._disarm()

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._waiting and self._waiting[0][0] <= loop.time():
            _, first, appended, senders = self._waiting.popleft()
            tell_stored(senders, first, appended, is_durable=False)
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][0], self._expire)

    def _disarm(self) -> None:
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def tell_stored(senders: Senders, first: int, appended: Sequence[Appended], *, is_durable: bool) -> None:
    """Whatever goes wrong with some senders, the others must be told too."""
    try:
        senders.stored(first, appended, is_durable)
    except Exception as error:
        place = appended[0].physical_offset
        log.error("senders of messages from %d on could not be told that they are stored", place, exc_info=error)


def tell_refused(senders: Senders, first: int, count: int, error: Exception) -> None:
    try:
        senders.refused(first, count, error)
    except Exception:
        log.exception("senders could not be told that their messages are not stored: %s", error)
