"""Waiting for something, or for a time to pass, by a clock that tests may own."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from kerolox.runtime.clock import Clock


async def event_or_late(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Returns when the event is set, or the seconds are over; and whether it is set."""
    if not event.is_set():
        await first_of(event.wait(), clock.sleep(seconds))
    return event.is_set()


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Returns when one of them does; the others are ended."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
