"""Waiting for an event, or for a time to pass."""

import asyncio

from kerolox.client.waiting import event_or_late, first_of
from kerolox.runtime.clock import ManualClock
from tests.client.sessions import until


async def test_an_event_ends_the_wait() -> None:
    clock, event = ManualClock(), asyncio.Event()
    waiting = asyncio.create_task(event_or_late(event, 10, clock))
    await asyncio.sleep(0)

    event.set()

    assert await waiting
    assert await event_or_late(event, 10, clock)


async def test_so_does_the_time() -> None:
    clock, event = ManualClock(), asyncio.Event()
    waiting = asyncio.create_task(event_or_late(event, 10, clock))
    await clock.advance(11)

    assert not await waiting


async def test_what_came_second_is_ended() -> None:
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
