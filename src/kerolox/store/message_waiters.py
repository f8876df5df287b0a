"""Long polling: waiters for the next message of a queue (NotifyMessageArrivingListener)."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice

# Waiters woken per iteration of the event loop. Each reads messages and answers, which takes up to 40 µs.
WAKES_MAX = 256

# Called with the queue id of each new message of a topic.
Watcher = Callable[[int], None]


class MessageWaiters:
    """Waiters by queue. A waiter of a quiet queue costs one future."""

    def __init__(self, *, wakes_max: int = WAKES_MAX) -> None:
        # In order of arrival; the first is woken first.
        self._waiting: dict[tuple[str, int], dict[asyncio.Future[None], None]] = {}
        self._watchers: dict[str, tuple[Watcher, ...]] = {}
        # Waiters that were notified but not woken yet; the queues take turns.
        self._waking: dict[tuple[str, int], dict[asyncio.Future[None], None]] = {}
        # Waiters that may still be woken in this iteration of the loop.
        self._wakes_left = self._wakes_max = wakes_max

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def waiting(self, topic: str, queue_id: int) -> int:
        """Return the number of waiters of a queue."""
        return len(self._waiting.get((topic, queue_id), ()))

    async def wait(self, topic: str, queue_id: int, *, seconds: float) -> bool:
        """Wait for a message of the queue; False after `seconds` without one."""
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
        """Whether there are waiters or watchers."""
        return bool(self._waiting or self._watchers)

    def watch(self, topic: str, watcher: Watcher) -> None:
        """Call the watcher for every message of a topic, in whatever queue; it must be fast."""
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
        """Wake all waiters of a queue: a limited number now, the others in later iterations of the loop."""
        key = topic, queue_id
        waiting = self._waiting.pop(key, None)
        if waiting:
            earlier = self._waking.get(key)
            if earlier is None:
                self._waking[key] = waiting
            else:
                earlier.update(waiting)
            self._wake()
        if self._watchers:
            for watcher in self._watchers.get(topic, ()):
                watcher(queue_id)

    def _wake(self) -> None:
        """Wake as many waiters as this iteration allows, and schedules the others for the next."""
        loop: asyncio.AbstractEventLoop | None = None
        is_first = self._wakes_left == self._wakes_max
        while self._waking and self._wakes_left:
            key, waiting = next(iter(self._waking.items()))
            del self._waking[key]
            for future in list(islice(waiting, self._wakes_left)):
                del waiting[future]
                loop = future.get_loop()
                if not future.done():
                    future.set_result(None)
                    self._wakes_left -= 1
            if waiting:
                self._waking[key] = waiting
        if is_first and loop is not None:
            loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._wakes_left = self._wakes_max
        self._wake()
