"""The manual and the system clock."""

import asyncio

from kerolox.runtime.clock import ManualClock, SystemClock


async def test_sleepers_wake_in_order_with_the_clock_at_their_deadline() -> None:
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


async def test_one_advance_wakes_a_task_that_sleeps_repeatedly_each_time() -> None:
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


async def test_no_sleeper_wakes_before_its_deadline() -> None:
    clock = ManualClock()
    sleeping = asyncio.create_task(clock.sleep(1))

    await clock.advance(0.999)

    assert not sleeping.done()
    await clock.advance(0.001)
    assert sleeping.done()


async def test_a_cancelled_sleeper_is_skipped() -> None:
    clock = ManualClock()
    sleeping = asyncio.create_task(clock.sleep(1))
    await clock.advance(0)
    sleeping.cancel()

    await clock.advance(2)

    assert sleeping.cancelled()


async def test_the_system_clock_runs() -> None:
    clock = SystemClock()
    before = clock.monotonic()

    await clock.sleep(0.001)

    assert clock.monotonic() > before
    assert clock.millis() > 1_700_000_000_000
