"""Who waits for something to pop, and who of them is woken."""

import asyncio
from functools import partial
from typing import Self

from kerolox.broker.pop.names import ANY_QUEUE, RETRY_V1, RETRY_V2, retry_topic
from kerolox.store.arrivals import Arrivals, Watcher

_Group = tuple[str, str]


class PollingFull(Exception):
    """More wait already than may."""


class Polling:
    """A message wakes one of each group that waits for its queue or for any; who leaves something wakes another.

    Whoever is woken and goes away without looking hands the wake-up on, so that none is lost.
    """

    def __init__(self, arrivals: Arrivals, *, queue_size_max: int, size_max: int) -> None:
        self._arrivals = arrivals
        self._queue_size_max = queue_size_max
        self._size_max = size_max
        # By topic and group, then by queue; who came first is woken first.
        self._groups: dict[_Group, dict[int, dict[asyncio.Future[None], None]]] = {}
        self._watching: dict[_Group, list[tuple[str, Watcher]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def waiting(self, topic: str, group: str, queue_id: int) -> int:
        return len(self._groups.get((topic, group), {}).get(queue_id, ()))

    async def wait(self, topic: str, group: str, queue_id: int, *, seconds: float) -> bool:
        """Returns whether there may be something within so many seconds; PollingFull, at once, if too many wait."""
        with Place(self, topic, group, queue_id) as place:
            return await place.wait(seconds)

    def is_full(self, topic: str, group: str, queue_id: int) -> bool:
        return self._count >= self._size_max or self.waiting(topic, group, queue_id) > self._queue_size_max

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Wakes one that waits for just this queue, or for just any if it is -1."""
        for future in self._groups.get((topic, group), {}).get(queue_id, ()):
            if not future.done():
                future.set_result(None)
                return

    def wake_all(self, topic: str, group: str, queue_id: int) -> None:
        """Wakes one that waits for the queue, and one that waits for any."""
        self.wake(topic, group, ANY_QUEUE)
        if queue_id != ANY_QUEUE:
            self.wake(topic, group, queue_id)

    def enter(self, key: _Group, queue_id: int, future: asyncio.Future[None]) -> None:
        if key not in self._groups:
            self._watch(key)
        self._groups.setdefault(key, {}).setdefault(queue_id, {})[future] = None
        self._count += 1

    def leave(self, key: _Group, queue_id: int, future: asyncio.Future[None]) -> None:
        queues = self._groups[key]
        del queues[queue_id][future]
        self._count -= 1
        if not queues[queue_id]:
            del queues[queue_id]
        if not queues:
            del self._groups[key]
            for topic, watcher in self._watching.pop(key):
                self._arrivals.unwatch(topic, watcher)

    def _watch(self, key: _Group) -> None:
        topic, group = key
        watching: list[tuple[str, Watcher]] = [
            (topic, partial(self.wake_all, topic, group)),
            (retry_topic(topic, group, RETRY_V1), partial(self._retried, key)),
            (retry_topic(topic, group, RETRY_V2), partial(self._retried, key)),
        ]
        for name, watcher in watching:
            self._arrivals.watch(name, watcher)
        self._watching[key] = watching

    def _retried(self, key: _Group, _: int) -> None:
        """What comes again may be had whatever queue one asks for."""
        for queue_id in self._groups.get(key, {}):
            self.wake(*key, queue_id)


class Place:
    """One who will wait. Who looks for longer than one turn enters before, and misses nothing that comes meanwhile."""

    __slots__ = ("_future", "_group", "_is_heard", "_polling", "_queue_id", "_topic")

    def __init__(self, polling: Polling, topic: str, group: str, queue_id: int) -> None:
        self._polling = polling
        self._topic, self._group, self._queue_id = topic, group, queue_id
        self._future: asyncio.Future[None] | None = None
        self._is_heard = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._future is None:
            return
        self._polling.leave((self._topic, self._group), self._queue_id, self._future)
        if self._future.done() and not self._future.cancelled() and not self._is_heard:
            self._polling.wake(self._topic, self._group, self._queue_id)

    def enter(self) -> bool:
        """Has wake-ups reach it from now on; False if too many wait."""
        if self._future is None and not self._polling.is_full(self._topic, self._group, self._queue_id):
            self._future = asyncio.get_running_loop().create_future()
            self._polling.enter((self._topic, self._group), self._queue_id, self._future)
        return self._future is not None

    async def wait(self, seconds: float) -> bool:
        if not self.enter():
            raise PollingFull
        assert self._future is not None
        try:
            async with asyncio.timeout(seconds):
                await self._future
        except TimeoutError:
            return False
        self._is_heard = True
        return True
