"""Time as a thing one can own: the system's, or a test's."""

import asyncio
import heapq
import time
from typing import Protocol


class Clock(Protocol):
    def millis(self) -> int:
        """Returns wall-clock time in milliseconds, as the protocol counts it."""

    def monotonic(self) -> float:
        """Returns seconds that never run backwards."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def millis(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to; whoever sleeps on it wakes in the order of their alarms."""

    def __init__(self, millis: int = 1_700_000_000_000) -> None:
        self._now = millis / 1000
        self._alarms: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def millis(self) -> int:
        return round(self._now * 1000)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._alarms, (self._now + seconds, self._count, alarm))
        await alarm

    async def advance(self, seconds: float) -> None:
        """Moves time on, waking every sleeper whose alarm it passes, each at its own moment."""
        target = self._now + seconds
        await self._settle()
        while self._alarms and self._alarms[0][0] <= target:
            self._now, _, alarm = heapq.heappop(self._alarms)
            if not alarm.done():
                alarm.set_result(None)
            await self._settle()
        self._now = target

    @staticmethod
    async def _settle() -> None:
        # A few turns of the loop let a woken task run on to its next sleep.
        for _ in range(5):
            await asyncio.sleep(0)
