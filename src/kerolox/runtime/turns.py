"""Long work on the event loop, a part at a time."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_turns(items: Iterable[T], *, count: int) -> AsyncIterator[T]:
    """Yields the items, and lets others have their turn after so many.

    What is iterated must not be changed by others meanwhile: give a copy of a table.
    """
    turns = Turns(count)
    for item in items:
        yield item
        await turns.step()


class Turns:
    """Counts steps of one piece of work, whatever loops they are in."""

    def __init__(self, count: int) -> None:
        self._count = self._left = count

    async def step(self) -> None:
        """Lets others have their turn, if it is time."""
        self._left -= 1
        if self._left <= 0:
            self._left = self._count
            await asyncio.sleep(0)
