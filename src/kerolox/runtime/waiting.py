"""Waits with a timeout that is measured by a Clock, so that tests can control it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from kerolox.runtime.clock import Clock


async def wait_with_timeout(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait until the event is set or the timeout has passed; return whether the event is set."""
    if not event.is_set():
        await first_of(event.wait(), clock.sleep(seconds))
    return event.is_set()


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when the first of the coroutines has finished; the others are cancelled. Errors are ignored."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
