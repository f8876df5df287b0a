"""Locks on queues: whoever consumes in order asks the broker for the queue, and again before the lock is over."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Final

from kerolox.client.consumer.brokers import Brokers
from kerolox.errors import KeroloxError
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.clients import LockBatch, LockedQueues
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.clients import LockBatchMq, UnlockBatchMq

log = logging.getLogger(__name__)

# A broker gives a lock away after 60 s; we do not trust one for more than half of that.
LIVE_SECONDS: Final = 30.0
RENEW_SECONDS: Final = 20.0
_TIMEOUT_SECONDS: Final = 1.0


class QueueLocks:
    """The queues that are ours alone, and since when."""

    def __init__(self, brokers: Brokers, group: str, clock: Clock) -> None:
        self._brokers = brokers
        self._group = group
        self._clock = clock
        self._locked: dict[MessageQueue, float] = {}

    def is_locked(self, queue: MessageQueue) -> bool:
        since = self._locked.get(queue)
        return since is not None and self._clock.monotonic() - since < LIVE_SECONDS

    def locked_millis(self, queue: MessageQueue) -> int:
        """Returns when a lock was last had, as wall-clock time; 0 if never."""
        since = self._locked.get(queue)
        return 0 if since is None else self._clock.millis() - int((self._clock.monotonic() - since) * 1000)

    async def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Asks for locks, or to keep them; returns those that are ours now."""
        ours = await asyncio.gather(*(self._lock(name, part) for name, part in _by_broker(queues).items()))
        return {queue for part in ours for queue in part}

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Gives locks back, so that others need not wait until they are over."""
        for queue in queues:
            self._locked.pop(queue, None)
        for name, part in _by_broker(queues).items():
            address = self._brokers.routes.address(name)
            if address is None:
                continue
            try:
                await self._brokers.call(address, UnlockBatchMq(), self._batch(part), timeout_seconds=_TIMEOUT_SECONDS)
            except KeroloxError as error:
                log.warning("%d queues of %s were not unlocked: %s", len(part), name, error)

    async def _lock(self, broker_name: str, queues: list[MessageQueue]) -> Iterable[MessageQueue]:
        address = self._brokers.routes.address(broker_name)
        if address is None:
            return ()
        # The lock lives from when the broker got the request, which is not before we sent it.
        now = self._clock.monotonic()
        try:
            reply = await self._brokers.call(
                address, LockBatchMq(), self._batch(queues), timeout_seconds=_TIMEOUT_SECONDS
            )
            ours = set(LockedQueues.decode(reply.body).lock_ok_mq_set).intersection(queues)
        except KeroloxError as error:
            log.warning("%d queues of %s were not locked: %s", len(queues), broker_name, error)
            return ()
        for queue in queues:
            if queue in ours:
                self._locked[queue] = now
            else:
                self._locked.pop(queue, None)
        return ours

    def _batch(self, queues: list[MessageQueue]) -> bytes:
        return LockBatch(client_id=self._brokers.client_id, consumer_group=self._group, mq_set=queues).encode()


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    parts: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        parts.setdefault(queue.broker_name, []).append(queue)
    return parts
