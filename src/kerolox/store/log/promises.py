"""Senders who are told that a message is stored when it is durable, or when they have waited long enough."""

import asyncio
import logging
from collections import deque
from typing import Protocol

from kerolox.store.log.commit_log import Appended

log = logging.getLogger(__name__)


class Sender(Protocol):
    """Whoever put a message; told once what became of it."""

    def stored(self, appended: Appended, is_durable: bool) -> None: ...

    def refused(self, error: Exception) -> None: ...


class Promises:
    """In the order in which messages lie in the log; one timer for all, since all wait equally long."""

    def __init__(self, *, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._waiting: deque[tuple[float, Appended, Sender]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def size(self) -> int:
        """How many bytes of the log those who wait span; what they hold in memory is not much more."""
        waiting = self._waiting
        return waiting[-1][1].end_offset - waiting[0][1].physical_offset if waiting else 0

    def add(self, appended: Appended, sender: Sender) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        self._waiting.append((deadline, appended, sender))
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)

    def settle(self, durable_offset: int) -> None:
        """Tells those whose messages are durable."""
        waiting = self._waiting
        while waiting and waiting[0][1].end_offset <= durable_offset:
            _, appended, sender = waiting.popleft()
            tell_stored(sender, appended, is_durable=True)
        self._disarm()

    def fail(self, error: Exception) -> None:
        """Tells all that nobody knows what became of their messages."""
        while self._waiting:
            tell_refused(self._waiting.popleft()[2], error)
        self._disarm()

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._waiting and self._waiting[0][0] <= loop.time():
            _, appended, sender = self._waiting.popleft()
            tell_stored(sender, appended, is_durable=False)
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][0], self._expire)

    def _disarm(self) -> None:
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def tell_stored(sender: Sender, appended: Appended, *, is_durable: bool) -> None:
    """Whatever goes wrong with one sender, the others must be told too."""
    try:
        sender.stored(appended, is_durable)
    except Exception as error:
        not_told(appended, error)


def not_told(appended: Appended, error: Exception) -> None:
    place = appended.physical_offset
    log.error("the sender of the message at %d could not be told that it is stored", place, exc_info=error)


def tell_refused(sender: Sender, error: Exception) -> None:
    try:
        sender.refused(error)
    except Exception:
        log.exception("a sender could not be told that its message is not stored: %s", error)
