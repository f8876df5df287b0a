"""Who waits for the next message of a queue."""

import asyncio
from collections.abc import Callable, Iterable

# Told the queue of each message that comes to a topic.
Watcher = Callable[[int], None]


class Arrivals:
    """A wake-up for each queue; waiting for one that nobody writes to costs a future and no more."""

    def __init__(self) -> None:
        # Who came first is woken first.
        self._waiting: dict[tuple[str, int], dict[asyncio.Future[None], None]] = {}
        self._watchers: dict[str, tuple[Watcher, ...]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def waiting(self, topic: str, queue_id: int) -> int:
        """Returns how many wait for a message of this queue."""
        return len(self._waiting.get((topic, queue_id), ()))

    async def wait(self, topic: str, queue_id: int, *, seconds: float) -> bool:
        """Returns whether a message came within so many seconds."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = topic, queue_id
        waiting = self._waiting.setdefault(key, {})
        waiting[future] = None
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return False
        finally:
            waiting.pop(future, None)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]
        return True

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting or self._watchers)

    def watch(self, topic: str, watcher: Watcher) -> None:
        """Has the watcher told of every message of a topic, whatever its queue; it must not take long."""
        self._watchers[topic] = (*self._watchers.get(topic, ()), watcher)

    def unwatch(self, topic: str, watcher: Watcher) -> None:
        left = tuple(other for other in self._watchers[topic] if other != watcher)
        if left:
            self._watchers[topic] = left
        else:
            del self._watchers[topic]

    def notify_all(self, queues: Iterable[tuple[str, int]]) -> None:
        waiting, watchers = self._waiting, self._watchers
        for key in queues:
            if key in waiting or key[0] in watchers:
                self.notify(*key)

    def notify(self, topic: str, queue_id: int) -> None:
        for future in self._waiting.pop((topic, queue_id), ()):
            if not future.done():
                future.set_result(None)
        if self._watchers:
            for watcher in self._watchers.get(topic, ()):
                watcher(queue_id)
