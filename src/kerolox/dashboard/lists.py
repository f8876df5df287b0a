"""Long lists: a page of them at a time, and some questions at a time about what is on it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kerolox.client.names import is_system

T = TypeVar("T")
R = TypeVar("R")

PAGE_SIZE = 50
_ASKED_AT_ONCE = 16
# Brokers have groups for tools of another time, which nobody sees the use of.
_BROKERS_GROUPS = ("CID_ONS", "CID_SYS_RMQ")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """What is on one page, which page that is, and how many there are."""

    items: Sequence[T]
    number: int
    count: int
    total: int


def paged(items: Sequence[T], number: int, size: int = PAGE_SIZE) -> Part[T]:
    """Returns a page, the last one if there are not so many."""
    count = max(1, -(-len(items) // size))
    number = min(number, count)
    return Part(items[(number - 1) * size : number * size], number, count, len(items))


async def gathered(items: Iterable[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
    """Returns what came of asking about each, in order; who fails should say so itself."""
    gate = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def one(item: T) -> R:
        async with gate:
            return await ask(item)

    async with asyncio.TaskGroup() as tasks:
        found = [tasks.create_task(one(item)) for item in items]
    return [task.result() for task in found]


def of_users(groups: Iterable[str]) -> list[str]:
    """Returns the groups that are not the system's own."""
    return [group for group in groups if not is_system(group) and not group.startswith(_BROKERS_GROUPS)]
