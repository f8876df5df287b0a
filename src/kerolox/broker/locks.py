"""Which client of a group consumes a queue in order, alone."""

from collections.abc import Iterable
from dataclasses import dataclass

from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue

LOCK_SECONDS = 60.0
# A bound the original does not have: more are granted when some have been given back, or have expired.
LOCKS_MAX = 200_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    until: float


class QueueLocks:
    """A lock that is not renewed is free after a minute."""

    def __init__(self, clock: Clock, *, seconds: float = LOCK_SECONDS, locks_max: int = LOCKS_MAX) -> None:
        self._clock = clock
        self._seconds = seconds
        self._locks_max = locks_max
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Returns the queues that are the client's now."""
        now = self._clock.monotonic()
        locks = self._groups.setdefault(group, {})
        room = self._locks_max - sum(map(len, self._groups.values()))
        owned: list[MessageQueue] = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                if room <= 0:
                    continue
                room -= 1
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
        """Whether any queue of the group is locked: it consumes in order."""
        now = self._clock.monotonic()
        return any(lock.until > now for lock in self._groups.get(group, {}).values())

    def expire(self) -> None:
        """Forgets what is free anyway."""
        now = self._clock.monotonic()
        for group, locks in list(self._groups.items()):
            self._groups[group] = {queue: lock for queue, lock in locks.items() if lock.until > now}
            if not self._groups[group]:
                del self._groups[group]
