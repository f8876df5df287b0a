"""Waiting with a timeout by a clock."""

import asyncio

from kerolox.runtime.clock import ManualClock
from kerolox.runtime.waiting import first_of, wait_with_timeout
from tests.client.sessions import until


async def test_an_event_ends_the_wait() -> None:
    clock, event = ManualClock(), asyncio.Event()
    waiting = asyncio.create_task(wait_with_timeout(event, 10, clock))
    await asyncio.sleep(0)

    event.set()

    assert await waiting
    assert await wait_with_timeout(event, 10, clock)


async def test_the_timeout_ends_the_wait() -> None:
    clock, event = ManualClock(), asyncio.Event()
    waiting = asyncio.create_task(wait_with_timeout(event, 10, clock))
    await clock.advance(11)

    assert not await waiting


async def test_first_of_cancels_the_slower_coroutine() -> None:
    clock, ended = ManualClock(), asyncio.Event()

    async def second() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(first_of(clock.sleep(1), second()))
    await clock.advance(1)
    await waiting

    await until(ended.is_set)
