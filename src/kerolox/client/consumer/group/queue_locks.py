"""Locks of queues on their session, for orderly consumers; renewed before they expire (RebalanceImpl.lockAll)."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Final

from kerolox.client.consumer.session_interface import SessionInterface
from kerolox.errors import KeroloxError
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.clients import LockBatch, LockedQueues
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.clients import LockBatchMq, UnlockBatchMq

log = logging.getLogger(__name__)

# A broker's lock expires after 60 s. The client relies on it for half of that (ProcessQueue.isLockExpired).
LIVE_SECONDS: Final = 30.0
RENEW_SECONDS: Final = 20.0
_TIMEOUT_SECONDS: Final = 1.0


class QueueLocks:
    """The queues that this member has locked, and when it did so last."""

    def __init__(self, session: SessionInterface, group: str, clock: Clock) -> None:
        self._session = session
        self._group = group
        self._clock = clock
        self._locked: dict[MessageQueue, float] = {}

    def is_locked(self, queue: MessageQueue) -> bool:
        since = self._locked.get(queue)
        return since is not None and self._clock.monotonic() - since < LIVE_SECONDS

    def locked_millis(self, queue: MessageQueue) -> int:
        """Return when the queue was last locked, in wall-clock milliseconds; 0 if never."""
        since = self._locked.get(queue)
        return 0 if since is None else self._clock.millis() - int((self._clock.monotonic() - since) * 1000)

    async def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Lock the queues, or renew their locks; return those that are locked now."""
        locked = await asyncio.gather(*(self._lock(name, part) for name, part in _by_broker(queues).items()))
        return {queue for part in locked for queue in part}

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Release the locks, so that other members need not wait until they expire."""
        for queue in queues:
            self._locked.pop(queue, None)
        for name, part in _by_broker(queues).items():
            address = self._session.routes.address(name)
            if address is None:
                continue
            try:
                await self._session.call(address, UnlockBatchMq(), self._batch(part), timeout_seconds=_TIMEOUT_SECONDS)
            except KeroloxError as error:
                log.warning("unlocking %d queues of broker %s failed: %s", len(part), name, error)

    async def _lock(self, broker_name: str, queues: list[MessageQueue]) -> Iterable[MessageQueue]:
        address = self._session.routes.address(broker_name)
        if address is None:
            return ()
        # Taken before sending: the broker's lock time begins later, so ours never expires after the broker's.
        now = self._clock.monotonic()
        try:
            reply = await self._session.call(
                address, LockBatchMq(), self._batch(queues), timeout_seconds=_TIMEOUT_SECONDS
            )
            locked = set(LockedQueues.decode(reply.body).lock_ok_mq_set).intersection(queues)
        except KeroloxError as error:
            log.warning("locking %d queues of broker %s failed: %s", len(queues), broker_name, error)
            return ()
        for queue in queues:
            if queue in locked:
                self._locked[queue] = now
            else:
                self._locked.pop(queue, None)
        return locked

    def _batch(self, queues: list[MessageQueue]) -> bytes:
        return LockBatch(client_id=self._session.client_id, consumer_group=self._group, mq_set=queues).encode()


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    parts: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        parts.setdefault(queue.broker_name, []).append(queue)
    return parts
