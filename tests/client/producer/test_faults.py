import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from kerolox.client.producer.faults import Faults
from kerolox.errors import ConnectFailed
from kerolox.runtime.clock import ManualClock


class Probed:
    """Faults with a clock of the test, and brokers that answer when the test says so."""

    def __init__(self, *, is_latency_heeded: bool = False) -> None:
        self.clock = ManualClock()
        self.alive: set[str] = set()
        self.asked: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.known = {"a", "b"}
        self.faults = Faults(
            self._probe, lambda: self.known, self._run, self.clock, is_latency_heeded=is_latency_heeded
        )

    async def _probe(self, address: str) -> None:
        self.asked.append(address)
        if address not in self.alive:
            raise ConnectFailed(address)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))


@pytest.fixture
async def probed() -> AsyncIterator[Probed]:
    made = Probed()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_who_failed_is_avoided_until_it_answers_a_probe(probed: Probed) -> None:
    probed.faults.failed("a")
    assert not probed.faults.is_good("a")
    assert probed.faults.is_good("b")

    await probed.clock.advance(60)
    assert not probed.faults.is_good("a")
    probed.alive = {"a"}
    await probed.clock.advance(1)

    assert probed.faults.is_good("a")
    assert not probed.faults.are_any


async def test_only_who_failed_is_probed_and_by_one_task(probed: Probed) -> None:
    probed.faults.failed("a")
    probed.faults.failed("a")
    await probed.clock.advance(1)

    assert probed.asked == ["a"]
    assert len(probed.tasks) == 1


async def test_probing_begins_again_with_the_next_failure(probed: Probed) -> None:
    probed.alive = {"a"}
    for _ in range(2):
        probed.faults.failed("a")
        await probed.clock.advance(1)

    assert probed.asked == ["a", "a"]


async def test_who_takes_a_message_is_good_again(probed: Probed) -> None:
    probed.faults.failed("a")

    probed.faults.answered("a", 5)

    assert probed.faults.is_good("a")


async def test_a_broker_without_an_address_is_no_good(probed: Probed) -> None:
    assert not probed.faults.is_good(None)


async def test_what_no_route_names_any_more_is_forgotten(probed: Probed) -> None:
    probed.faults.failed("a")
    probed.known = {"b"}

    await probed.clock.advance(1)

    assert not probed.faults.are_any
    assert probed.asked == []


@pytest.mark.parametrize(("millis", "avoided_seconds"), [(99, 0), (549, 0), (550, 2), (1800, 5), (20_000, 30)])
async def test_slow_brokers_are_avoided_for_as_long_as_in_java(millis: int, avoided_seconds: float) -> None:
    probed = Probed(is_latency_heeded=True)

    probed.faults.answered("a", millis)

    assert probed.faults.is_good("a") == (avoided_seconds == 0)
    await probed.clock.advance(avoided_seconds)
    assert probed.faults.is_good("a")


async def test_slow_brokers_are_not_avoided_unless_that_is_wanted(probed: Probed) -> None:
    probed.faults.answered("a", 20_000)

    assert probed.faults.is_good("a")
