import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from kerolox.client.producer.fault_tolerance import FaultTolerance
from kerolox.errors import ConnectFailed
from kerolox.runtime.clock import ManualClock


class Probes:
    """FaultTolerance with a manual clock, and brokers that respond to probes if they are in `alive`."""

    def __init__(self, *, avoid_slow: bool = False) -> None:
        self.clock = ManualClock()
        self.alive: set[str] = set()
        self.probed: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.known = {"a", "b"}
        self.faults = FaultTolerance(self._probe, lambda: self.known, self._run, self.clock, avoid_slow=avoid_slow)

    async def _probe(self, address: str) -> None:
        self.probed.append(address)
        if address not in self.alive:
            raise ConnectFailed(address)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))


@pytest.fixture
async def probes() -> AsyncIterator[Probes]:
    made = Probes()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_a_failed_broker_is_avoided_until_it_responds_to_a_probe(probes: Probes) -> None:
    probes.faults.record_failure("a")
    assert not probes.faults.is_available("a")
    assert probes.faults.is_available("b")

    await probes.clock.advance(60)
    assert not probes.faults.is_available("a")
    probes.alive = {"a"}
    await probes.clock.advance(1)

    assert probes.faults.is_available("a")
    assert not probes.faults.has_faults


async def test_one_task_probes_the_failed_brokers(probes: Probes) -> None:
    probes.faults.record_failure("a")
    probes.faults.record_failure("a")
    await probes.clock.advance(1)

    assert probes.probed == ["a"]
    assert len(probes.tasks) == 1


async def test_probing_begins_again_with_the_next_failure(probes: Probes) -> None:
    probes.alive = {"a"}
    for _ in range(2):
        probes.faults.record_failure("a")
        await probes.clock.advance(1)

    assert probes.probed == ["a", "a"]


async def test_a_successful_send_makes_a_broker_available(probes: Probes) -> None:
    probes.faults.record_failure("a")

    probes.faults.record_success("a", 5)

    assert probes.faults.is_available("a")


async def test_a_broker_without_an_address_is_not_available(probes: Probes) -> None:
    assert not probes.faults.is_available(None)


async def test_a_broker_that_left_all_routes_is_forgotten(probes: Probes) -> None:
    probes.faults.record_failure("a")
    probes.known = {"b"}

    await probes.clock.advance(1)

    assert not probes.faults.has_faults
    assert probes.probed == []


@pytest.mark.parametrize(("millis", "avoided_seconds"), [(99, 0), (549, 0), (550, 2), (1800, 5), (20_000, 30)])
async def test_slow_brokers_are_avoided_for_as_long_as_in_java(millis: int, avoided_seconds: float) -> None:
    probes = Probes(avoid_slow=True)

    probes.faults.record_success("a", millis)

    assert probes.faults.is_available("a") == (avoided_seconds == 0)
    await probes.clock.advance(avoided_seconds)
    assert probes.faults.is_available("a")


async def test_slow_brokers_are_not_avoided_by_default(probes: Probes) -> None:
    probes.faults.record_success("a", 20_000)

    assert probes.faults.is_available("a")
