"""Splits long work on the event loop into parts, so that other tasks run in between."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")

# A generator that yields where other tasks may run, and returns its result.
Steps = Generator[None, None, T]


async def in_turns(items: Iterable[T], *, count: int) -> AsyncIterator[T]:
    """Yield the items, and let other tasks run after every `count` of them.

    Other tasks must not change `items` meanwhile: pass a copy of a table.
    """
    turns = Turns(count)
    for item in items:
        yield item
        await turns.step()


class Turns:
    """Counts the steps of one piece of work, across all its loops, and lets other tasks run after every `count`."""

    def __init__(self, count: int) -> None:
        self._count = self._left = count

    async def step(self, count: int = 1) -> None:
        """Count one step or several, and let other tasks run when `count` is reached."""
        self._left -= count
        if self._left <= 0:
            self._left = self._count
            await asyncio.sleep(0)


async def run_in_steps(steps: Steps[T]) -> T:
    """Run a generator to its end and return its result; other tasks run between its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


def run_at_once(steps: Steps[T]) -> T:
    """Run a generator to its end and return its result; no other task runs meanwhile."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
