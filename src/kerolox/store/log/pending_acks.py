"""Acknowledges sends once their messages are durable or copied, or reports a timeout.

The counterparts in Java are FlushDiskWatcher and GroupTransferService.
"""

import asyncio
import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from operator import attrgetter
from typing import Protocol

from kerolox.codes import ResponseCode
from kerolox.store.log.commit_log import Appended

log = logging.getLogger(__name__)

_end_offset = attrgetter("end_offset")


class AckStatus(Enum):
    """What a sender learns of a stored message; each value is the response code of a send."""

    OK = 0
    # It is unknown whether the message is durable (SYNC_FLUSH).
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT.value
    # Fewer slaves than needed are connected and close enough behind (SYNC_MASTER).
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE.value
    # Fewer slaves than needed reported the message in time (SYNC_MASTER).
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT.value


class Copies(Protocol):
    """The copies of this log on other brokers, as far as senders wait for them."""

    @property
    def timeout_seconds(self) -> float:
        """How long a sender waits for copies."""

    def are_needed(self) -> bool:
        """Whether senders wait for copies at present."""

    def are_available(self, end_offset: int) -> bool:
        """Whether enough slaves are close enough behind the end of the log to be waited for."""

    def held_offset(self) -> int:
        """Return the physical offset up to which enough copies hold the log."""

    @property
    def limits_readers(self) -> bool:
        """Whether readers see only what `confirm_offset` covers."""

    def confirm_offset(self) -> int:
        """Return the physical offset up to which no failover takes the log back."""

    def refusal(self) -> str | None:
        """Return why nothing may be appended at present."""

    def subscribe(self, on_held: Callable[[], None]) -> None:
        """Call `on_held` whenever `held_offset` may have grown; the store subscribes once."""


class Sender(Protocol):
    """Callbacks of the sender of one message; exactly one of them is called, once."""

    def stored(self, appended: Appended, status: AckStatus) -> None: ...

    def refused(self, error: Exception) -> None: ...


class Senders(Protocol):
    """Callbacks for several messages put together, in log order.

    Each message is reported exactly once. A call covers consecutive messages; `first` is the index of the first one.
    """

    def stored(self, first: int, appended: Sequence[Appended], status: AckStatus) -> None: ...

    def refused(self, first: int, count: int, error: Exception) -> None: ...


class SingleSender:
    """Adapts a `Sender` to the `Senders` protocol."""

    __slots__ = ("_sender",)

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def stored(self, first: int, appended: Sequence[Appended], status: AckStatus) -> None:
        self._sender.stored(appended[0], status)

    def refused(self, first: int, count: int, error: Exception) -> None:
        self._sender.refused(error)


class PendingAcks:
    """Pending acknowledgements in log order. One timer serves all of them, because all have the same timeout.

    A sender that waits too long gets `timeout_status`.
    """

    def __init__(self, *, timeout_seconds: float, timeout_status: AckStatus = AckStatus.FLUSH_DISK_TIMEOUT) -> None:
        self._timeout_seconds = timeout_seconds
        self._timeout_status = timeout_status
        self._waiting: deque[tuple[float, int, Sequence[Appended], Senders, AckStatus]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(len(appended) for _, _, appended, _, _ in self._waiting)

    def add(
        self,
        first: int,
        appended: Sequence[Appended],
        senders: Senders,
        *,
        since: float | None = None,
        status: AckStatus = AckStatus.OK,
    ) -> None:
        """Acknowledge consecutive messages with `status` when `acknowledge` reaches them; `first` as in `Senders`.

        `since` is the time of the event loop at which they began to wait; now by default.
        """
        loop = asyncio.get_running_loop()
        deadline = (loop.time() if since is None else since) + self._timeout_seconds
        self._waiting.append((deadline, first, appended, senders, status))
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)

    def acknowledge(self, offset: int) -> None:
        """Acknowledge all messages that end at or before `offset`."""
        waiting = self._waiting
        while waiting and waiting[0][2][0].end_offset <= offset:
            deadline, first, appended, senders, status = waiting.popleft()
            if appended[-1].end_offset > offset:
                # Only some of these messages are covered: acknowledge them and keep the rest waiting.
                count = bisect_right(appended, offset, key=_end_offset)
                waiting.appendleft((deadline, first + count, appended[count:], senders, status))
                appended = appended[:count]
            notify_stored(senders, first, appended, status)
        self._disarm()

    def fail(self, error: Exception) -> None:
        """Report `error` to all senders: whether their messages are durable is unknown."""
        while self._waiting:
            _, first, appended, senders, _ = self._waiting.popleft()
            notify_refused(senders, first, len(appended), error)
        self._disarm()

    def expire_all(self) -> None:
        """Report the timeout to all senders now."""
        while self._waiting:
            _, first, appended, senders, _ = self._waiting.popleft()
            notify_stored(senders, first, appended, self._timeout_status)
        self._disarm()

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._waiting and self._waiting[0][0] <= loop.time():
            _, first, appended, senders, _ = self._waiting.popleft()
            notify_stored(senders, first, appended, self._timeout_status)
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][0], self._expire)

    def _disarm(self) -> None:
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None


class CopyWait:
    """Senders that wait for copies once the disk is done with them, for as long as is left since they began to wait.

    So both are waited for at the same time. If both time out, the status of the copies wins, as in Java.
    """

    __slots__ = ("_copies", "_pending", "_senders", "_since")

    def __init__(self, copies: Copies, pending: PendingAcks, senders: Senders) -> None:
        self._copies = copies
        self._pending = pending
        self._senders = senders
        self._since = asyncio.get_running_loop().time()

    def stored(self, first: int, appended: Sequence[Appended], status: AckStatus) -> None:
        self._pending.add(first, appended, self._senders, since=self._since, status=status)
        self._pending.acknowledge(self._copies.held_offset())

    def refused(self, first: int, count: int, error: Exception) -> None:
        notify_refused(self._senders, first, count, error)


class CopyRefused:
    """Senders that get SLAVE_NOT_AVAILABLE once the disk is done with them."""

    __slots__ = ("_senders",)

    def __init__(self, senders: Senders) -> None:
        self._senders = senders

    def stored(self, first: int, appended: Sequence[Appended], status: AckStatus) -> None:
        notify_stored(self._senders, first, appended, AckStatus.SLAVE_NOT_AVAILABLE)

    def refused(self, first: int, count: int, error: Exception) -> None:
        notify_refused(self._senders, first, count, error)


def notify_stored(senders: Senders, first: int, appended: Sequence[Appended], status: AckStatus) -> None:
    """Call `senders.stored`; log an exception it raises, so that other senders are still notified."""
    try:
        senders.stored(first, appended, status)
    except Exception:
        log.exception("acknowledging the messages stored at %d failed", appended[0].physical_offset)


def notify_refused(senders: Senders, first: int, count: int, error: Exception) -> None:
    """Call `senders.refused`; log an exception it raises, so that other senders are still notified."""
    try:
        senders.refused(first, count, error)
    except Exception:
        log.exception("reporting to senders that messages were not stored (%s) failed", error)
