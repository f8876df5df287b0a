"""Pages of long lists, and concurrent requests about their items."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kerolox.client.resource_names import is_system
from kerolox.runtime.clock import Clock

T = TypeVar("T")
R = TypeVar("R")

PAGE_SIZE = 50
_CONCURRENT_REQUESTS = 16
# Larger than the above, so that a few hanging members do not use up the time of those that would answer.
_CONCURRENT_MEMBER_REQUESTS = 128
# Prefixes of groups that brokers create for historical tools.
_BUILT_IN_PREFIXES = ("CID_ONS", "CID_SYS_RMQ")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """The items of one page, its number, the number of pages, and the number of all items."""

    items: Sequence[T]
    number: int
    count: int
    total: int


def paginate(items: Sequence[T], number: int, size: int = PAGE_SIZE) -> ListPage[T]:
    """Return a page of a list; the last one if `number` is too large."""
    count = max(1, -(-len(items) // size))
    number = min(number, count)
    return ListPage(items[(number - 1) * size : number * size], number, count, len(items))


async def gather_limited(items: Iterable[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
    """Call `ask` for each item, a few at a time, and return the results in order. `ask` should not raise."""
    free = asyncio.Semaphore(_CONCURRENT_REQUESTS)

    async def limited(item: T) -> R:
        async with free:
            return await ask(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(limited(item)) for item in items]
    return [task.result() for task in tasks]


async def gather_with_timeout(
    items: Iterable[T], ask: Callable[[T], Awaitable[R]], clock: Clock, timeout_seconds: float
) -> list[R | None]:
    """Return the results of `ask` in the order of the items; None for each that did not finish before the timeout."""
    free = asyncio.Semaphore(_CONCURRENT_MEMBER_REQUESTS)

    async def limited(item: T) -> R:
        async with free:
            return await ask(item)

    tasks = [asyncio.create_task(limited(item)) for item in items]
    timer = asyncio.create_task(clock.sleep(timeout_seconds))
    try:
        all_done: asyncio.Future[Any] = asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait([all_done, timer], return_when=asyncio.FIRST_COMPLETED)
        return [task.result() if task.done() else None for task in tasks]
    finally:
        for task in (*tasks, timer):
            task.cancel()
        await asyncio.gather(*tasks, timer, return_exceptions=True)


def user_groups(groups: Iterable[str]) -> list[str]:
    """Return the groups without those of brokers and tools."""
    return [group for group in groups if not is_system(group) and not group.startswith(_BUILT_IN_PREFIXES)]
