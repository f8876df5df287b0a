"""A bound on what is under way: the rest waits its turn, and its time begins when it has it."""

import asyncio
from collections import deque


class InFlight:
    """Costs next to nothing while there is room."""

    __slots__ = ("_count_max", "_empty", "_waiting", "count")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._empty: asyncio.Future[None] | None = None
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._count_max

    def enter(self) -> None:
        """Takes a place of which it is known that it is free."""
        self.count += 1

    async def wait(self) -> None:
        """Takes a place as soon as there is one, in the order of coming."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            # The place is handed over by whoever leaves.
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Gives the place to whoever has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.count -= 1
        if not self.count and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    async def empty(self) -> None:
        """Returns when nothing is under way."""
        while self.count:
            if self._empty is None or self._empty.done():
                self._empty = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._empty)
