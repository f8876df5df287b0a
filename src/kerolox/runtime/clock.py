"""Clocks: the system's, and one that tests advance by hand."""

import asyncio
import heapq
import time
from typing import Protocol


class Clock(Protocol):
    def millis(self) -> int:
        """Return the wall-clock time in milliseconds since 1970, as the protocol carries it."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards; only differences are meaningful."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def millis(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only in `advance`; sleeping tasks wake in the order of their deadlines."""

    def __init__(self, millis: int = 1_700_000_000_000) -> None:
        self._now = millis / 1000
        # Offset of the wall clock from the monotonic one.
        self._stepped = 0.0
        # Heap of (deadline, sequence number, wake-up).
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def millis(self) -> int:
        return round((self._now + self._stepped) * 1000)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        wake_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._now + seconds, self._count, wake_up))
        await wake_up

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back if negative; `monotonic` and sleeping tasks are not affected."""
        self._stepped += seconds

    async def advance(self, seconds: float) -> None:
        """Advance the time and wake every task whose deadline passes, with the clock at that deadline."""
        target = self._now + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            self._now, _, wake_up = heapq.heappop(self._sleepers)
            if not wake_up.done():
                wake_up.set_result(None)
            await self._settle()
        self._now = target

    @staticmethod
    async def _settle() -> None:
        # A few loop iterations let a woken task run on to its next sleep.
        for _ in range(5):
            await asyncio.sleep(0)
