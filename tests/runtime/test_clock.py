"""Time that a test owns."""

import asyncio

from kerolox.runtime.clock import ManualClock, SystemClock


async def test_sleepers_wake_in_the_order_of_their_alarms_each_at_its_own_moment() -> None:
    clock = ManualClock(millis=1_000_000)
    woken: list[tuple[str, int]] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.millis()))

    async with asyncio.TaskGroup() as tasks:
        for name, seconds in (("late", 3.0), ("early", 1.0), ("also early", 1.0), ("middle", 2.5)):
            tasks.create_task(sleep(name, seconds))
        await clock.advance(10)

    assert woken == [("early", 1_001_000), ("also early", 1_001_000), ("middle", 1_002_500), ("late", 1_003_000)]
    assert clock.millis() == 1_010_000


async def test_who_sleeps_again_wakes_again_within_one_advance() -> None:
    clock = ManualClock()
    start = clock.monotonic()
    moments: list[float] = []

    async def tick() -> None:
        while True:
            await clock.sleep(1)
            moments.append(clock.monotonic() - start)

    ticking = asyncio.create_task(tick())
    await clock.advance(3.5)
    ticking.cancel()

    assert moments == [1, 2, 3]


async def test_nobody_wakes_before_the_time() -> None:
    clock = ManualClock()
    sleeping = asyncio.create_task(clock.sleep(1))

    await clock.advance(0.999)

    assert not sleeping.done()
    await clock.advance(0.001)
    assert sleeping.done()


async def test_a_sleeper_that_was_cancelled_is_passed_over() -> None:
    clock = ManualClock()
    sleeping = asyncio.create_task(clock.sleep(1))
    await clock.advance(0)
    sleeping.cancel()

    await clock.advance(2)

    assert sleeping.cancelled()


async def test_the_systems_clock_runs() -> None:
    clock = SystemClock()
    before = clock.monotonic()

    await clock.sleep(0.001)

    assert clock.monotonic() > before
    assert clock.millis() > 1_700_000_000_000
