"""Who waits for the next message of a queue."""

import asyncio


class Arrivals:
    """A wake-up for each queue; waiting for one that nobody writes to costs a future and no more."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    async def wait(self, topic: str, queue_id: int, *, seconds: float) -> bool:
        """Returns whether a message came within so many seconds."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = topic, queue_id
        waiting = self._waiting.setdefault(key, set())
        waiting.add(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return False
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]
        return True

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def notify(self, topic: str, queue_id: int) -> None:
        for future in self._waiting.pop((topic, queue_id), ()):
            if not future.done():
                future.set_result(None)
