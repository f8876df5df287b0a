"""A limit on the sends in flight of a producer. The timeout of a send begins when it gets its slot."""

import asyncio
from collections import deque


class InFlightLimit:
    """A semaphore, except that `enter` does not await while slots are free: sends are a hot path."""

    __slots__ = ("_count_max", "_empty", "_waiters", "count")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._empty: asyncio.Future[None] | None = None
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._count_max

    def enter(self) -> None:
        """Take a slot; the caller has checked `is_full`."""
        self.count += 1

    async def wait_and_enter(self) -> None:
        """Take a slot as soon as one is free, first come first served."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            # `leave` hands its slot over without changing `count`.
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Give the slot to the first waiter, or free it."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.count -= 1
        if not self.count and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    async def wait_empty(self) -> None:
        """Return when nothing is in flight."""
        while self.count:
            if self._empty is None or self._empty.done():
                self._empty = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._empty)
