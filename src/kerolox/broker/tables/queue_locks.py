"""Locks of queues for orderly consumption: one client of a group per queue (RebalanceLockManager)."""

from collections.abc import Iterable
from dataclasses import dataclass

from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue

LOCK_SECONDS = 60.0
# A limit that RocketMQ does not have: further locks are granted after others were released or have expired.
LOCKS_MAX = 200_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    until: float


class QueueLocks:
    """A lock that is not renewed expires after `seconds`."""

    def __init__(self, clock: Clock, *, seconds: float = LOCK_SECONDS, locks_max: int = LOCKS_MAX) -> None:
        self._clock = clock
        self._seconds = seconds
        self._locks_max = locks_max
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Lock the queues for the client; return those that it holds now."""
        now = self._clock.monotonic()
        locks = self._groups.setdefault(group, {})
        free = self._locks_max - sum(map(len, self._groups.values()))
        owned: list[MessageQueue] = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                if free <= 0:
                    continue
                free -= 1
            if lock is None or lock.client_id == client_id or lock.until <= now:
                locks[queue] = _Lock(client_id, now + self._seconds)
                owned.append(queue)
        if not locks:
            del self._groups[group]
        return owned

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            self._groups.pop(group, None)

    def is_locked(self, group: str) -> bool:
        """Whether any queue of the group is locked, which means that it consumes orderly."""
        now = self._clock.monotonic()
        return any(lock.until > now for lock in self._groups.get(group, {}).values())

    def expire(self) -> None:
        """Remove expired locks from memory."""
        now = self._clock.monotonic()
        for group, locks in list(self._groups.items()):
            self._groups[group] = {queue: lock for queue, lock in locks.items() if lock.until > now}
            if not self._groups[group]:
                del self._groups[group]
