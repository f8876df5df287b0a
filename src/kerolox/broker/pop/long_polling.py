"""Long polling for POP (PopLongPollingService)."""

import asyncio
from functools import partial
from typing import Self

from kerolox.broker.pop.receipt_handle import ANY_QUEUE, RETRY_V1, RETRY_V2, retry_topic
from kerolox.store.message_waiters import MessageWaiters, Watcher

_Group = tuple[str, str]


class PollingFull(Exception):
    """Too many requests wait already."""


class PopLongPolling:
    """Lets requests wait for messages. A message wakes one request per group for its queue, and one for any queue.

    A request that leaves messages behind wakes another one. A request that is woken but ends without looking (its
    client disconnected) passes the wake-up on, so that none is lost.
    """

    def __init__(self, arrivals: MessageWaiters, *, queue_size_max: int, size_max: int) -> None:
        self._arrivals = arrivals
        self._queue_size_max = queue_size_max
        self._size_max = size_max
        # (topic, group) -> queue -> futures in the order of arrival.
        self._groups: dict[_Group, dict[int, dict[asyncio.Future[None], None]]] = {}
        self._watchers: dict[_Group, list[tuple[str, Watcher]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def waiting(self, topic: str, group: str, queue_id: int) -> int:
        return len(self._groups.get((topic, group), {}).get(queue_id, ()))

    async def wait(self, topic: str, group: str, queue_id: int, *, seconds: float) -> bool:
        """Return True when woken, False after a timeout; PollingFull at once if too many requests wait."""
        with PolledQueue(self, topic, group, queue_id) as polled:
            return await polled.wait(seconds)

    def is_full(self, topic: str, group: str, queue_id: int) -> bool:
        return self._count >= self._size_max or self.waiting(topic, group, queue_id) > self._queue_size_max

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Wake one request that waits for exactly this queue; -1 stands for those that wait for any queue."""
        for future in self._groups.get((topic, group), {}).get(queue_id, ()):
            if not future.done():
                future.set_result(None)
                return

    def wake_all(self, topic: str, group: str, queue_id: int) -> None:
        """Wake one request that waits for the queue, and one that waits for any queue."""
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
            for topic, watcher in self._watchers.pop(key):
                self._arrivals.unwatch(topic, watcher)

    def _watch(self, key: _Group) -> None:
        topic, group = key
        watchers: list[tuple[str, Watcher]] = [
            (topic, partial(self.wake_all, topic, group)),
            (retry_topic(topic, group, RETRY_V1), partial(self._wake_for_retry, key)),
            (retry_topic(topic, group, RETRY_V2), partial(self._wake_for_retry, key)),
        ]
        for name, watcher in watchers:
            self._arrivals.watch(name, watcher)
        self._watchers[key] = watchers

    def _wake_for_retry(self, key: _Group, _: int) -> None:
        """Wake a request of each queue: retried messages are popped whatever queue a request names."""
        for queue_id in self._groups.get(key, {}):
            self.wake(*key, queue_id)


class PolledQueue:
    """A request that waits for a queue.

    A request whose scan of the queues suspends calls `enter` first, so that it misses no message that arrives
    meanwhile.
    """

    __slots__ = ("_future", "_group", "_is_delivered", "_polling", "_queue_id", "_topic")

    def __init__(self, polling: PopLongPolling, topic: str, group: str, queue_id: int) -> None:
        self._polling = polling
        self._topic, self._group, self._queue_id = topic, group, queue_id
        self._future: asyncio.Future[None] | None = None
        self._is_delivered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._future is None:
            return
        self._polling.leave((self._topic, self._group), self._queue_id, self._future)
        if self._future.done() and not self._future.cancelled() and not self._is_delivered:
            self._polling.wake(self._topic, self._group, self._queue_id)

    def enter(self) -> bool:
        """Receive wake-ups from now on; False if too many requests wait."""
        if self._future is None and not self._polling.is_full(self._topic, self._group, self._queue_id):
            self._future = asyncio.get_running_loop().create_future()
            self._polling.enter((self._topic, self._group), self._queue_id, self._future)
        return self._future is not None

    async def wait(self, seconds: float) -> bool:
        """Return True when woken, False after `seconds`; PollingFull if too many requests wait."""
        if not self.enter():
            raise PollingFull
        assert self._future is not None
        try:
            async with asyncio.timeout(seconds):
                await self._future
        except TimeoutError:
            return False
        self._is_delivered = True
        return True
