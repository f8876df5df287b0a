"""Blocking wrappers of asyncio methods."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from kerolox.client.blocking.facade import Blocking, blocks, iterates, manages, runs


class Counting:
    """An asyncio class with one method of each kind."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.left = threading.Event()

    async def add(self, number: int, *, to: int = 1) -> int:
        """Return the sum, of `await nothing`."""
        await asyncio.sleep(0)
        self.threads.add(threading.current_thread())
        return number + to

    def note(self, text: str) -> int:
        asyncio.get_running_loop()
        self.log.append(text)
        return len(self.log)

    async def count(self, end: int) -> AsyncIterator[int]:
        try:
            for number in range(end):
                await asyncio.sleep(0)
                yield number
        finally:
            self.left.set()

    @asynccontextmanager
    async def holding(self, name: str) -> AsyncIterator[str]:
        self.log.append(f"take {name}")
        try:
            yield name
        except KeyError as error:
            self.log.append(f"forgive {error}")
        finally:
            self.log.append(f"let {name} go")


class BlockingCounting(Blocking[Counting]):
    add = blocks(Counting.add)
    note = runs(Counting.note)
    count = iterates(Counting.count)
    holding = manages(Counting.holding)


@pytest.fixture
def inner() -> Counting:
    return Counting()


@pytest.fixture
def counting(inner: Counting) -> BlockingCounting:
    return BlockingCounting(inner)


def test_blocks_runs_the_coroutine_in_the_loop_thread(counting: BlockingCounting, inner: Counting) -> None:
    assert counting.add(1, to=2) == 3
    assert threading.current_thread() not in inner.threads


def test_runs_calls_a_plain_method_on_the_loop(counting: BlockingCounting) -> None:
    assert [counting.note("a"), counting.note("b")] == [1, 2]


def test_iterates_yields_the_items(counting: BlockingCounting) -> None:
    assert list(counting.count(3)) == [0, 1, 2]
    assert list(counting.count(0)) == []


def test_an_iteration_that_stops_early_is_closed(counting: BlockingCounting, inner: Counting) -> None:
    for number in counting.count(3):
        assert number == 0
        break

    assert inner.left.wait(30)


def test_manages_enters_exits_and_passes_exceptions(counting: BlockingCounting, inner: Counting) -> None:
    with counting.holding("a") as name:
        inner.log.append(f"have {name}")
    with counting.holding("b"):
        raise KeyError("k")
    with pytest.raises(ValueError, match="v"), counting.holding("c"):
        raise ValueError("v")

    assert inner.log == [
        *("take a", "have a", "let a go"),
        *("take b", "forgive 'k'", "let b go"),
        *("take c", "let c go"),
    ]


def test_signatures_are_kept_without_asyncio() -> None:
    assert inspect.signature(BlockingCounting.add) == inspect.signature(Counting.add)
    assert inspect.signature(BlockingCounting.count).return_annotation == Iterator[int]
    assert inspect.signature(BlockingCounting.holding).return_annotation == Iterator[str]
    assert BlockingCounting.add.__doc__ == "Return the sum, of `nothing`."
    assert not inspect.iscoroutinefunction(BlockingCounting.add)


def test_overridden_methods_of_the_inner_object_are_called() -> None:
    class Doubling(Counting):
        async def add(self, number: int, *, to: int = 1) -> int:
            return 2 * await super().add(number, to=to)

    assert BlockingCounting(Doubling()).add(1) == 4
