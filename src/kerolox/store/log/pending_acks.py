"""Acknowledges sends once their messages are durable, or reports a timeout (FlushDiskWatcher)."""

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
    """Callbacks of the sender of one message; exactly one of them is called, once."""

    def stored(self, appended: Appended, is_durable: bool) -> None: ...

    def refused(self, error: Exception) -> None: ...


class Senders(Protocol):
    """Callbacks for several messages put together, in log order.

    Each message is reported exactly once. A call covers consecutive messages; `first` is the index of the first one.
    """

    def stored(self, first: int, appended: Sequence[Appended], is_durable: bool) -> None: ...

    def refused(self, first: int, count: int, error: Exception) -> None: ...


class SingleSender:
    """Adapts a `Sender` to the `Senders` protocol."""

    __slots__ = ("_sender",)

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def stored(self, first: int, appended: Sequence[Appended], is_durable: bool) -> None:
        self._sender.stored(appended[0], is_durable)

    def refused(self, first: int, count: int, error: Exception) -> None:
        self._sender.refused(error)


class PendingAcks:
    """Pending acknowledgements in log order. One timer serves all of them, because all have the same timeout."""

    def __init__(self, *, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._waiting: deque[tuple[float, int, Sequence[Appended], Senders]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(len(appended) for _, _, appended, _ in self._waiting)

    def add(self, first: int, appended: Sequence[Appended], senders: Senders) -> None:
        """Acknowledge these consecutive messages to `senders` when they are durable; `first` as in `Senders`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        self._waiting.append((deadline, first, appended, senders))
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)

    def acknowledge(self, durable_offset: int) -> None:
        """Acknowledge all messages that end at or before `durable_offset`."""
        waiting = self._waiting
        while waiting and waiting[0][2][0].end_offset <= durable_offset:
            deadline, first, appended, senders = waiting.popleft()
            if appended[-1].end_offset > durable_offset:
                # The sync covers only some of these messages: acknowledge them and keep the rest waiting.
                count = bisect_right(appended, durable_offset, key=_end_offset)
                waiting.appendleft((deadline, first + count, appended[count:], senders))
                appended = appended[:count]
            notify_stored(senders, first, appended, is_durable=True)
        self._disarm()

    def fail(self, error: Exception) -> None:
        """Report `error` to all senders: whether their messages are durable is unknown."""
        while self._waiting:
            _, first, appended, senders = self._waiting.popleft()
            notify_refused(senders, first, len(appended), error)
        self._disarm()

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._waiting and self._waiting[0][0] <= loop.time():
            _, first, appended, senders = self._waiting.popleft()
            notify_stored(senders, first, appended, is_durable=False)
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][0], self._expire)

    def _disarm(self) -> None:
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def notify_stored(senders: Senders, first: int, appended: Sequence[Appended], *, is_durable: bool) -> None:
    """Call `senders.stored`; log an exception it raises, so that other senders are still notified."""
    try:
        senders.stored(first, appended, is_durable)
    except Exception:
        log.exception("acknowledging the messages stored at %d failed", appended[0].physical_offset)


def notify_refused(senders: Senders, first: int, count: int, error: Exception) -> None:
    """Call `senders.refused`; log an exception it raises, so that other senders are still notified."""
    try:
        senders.refused(first, count, error)
    except Exception:
        log.exception("reporting to senders that messages were not stored (%s) failed", error)
