"""Waits for effects of other processes by polling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from kerolox.errors import KeroloxError
from kerolox.remoting.client import Client
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic

_PAUSE_SECONDS = 0.1
_LISTED_SECONDS = 90.0


def eventually(condition: Callable[[], bool], timeout_seconds: float, description: str) -> float:
    """Wait until `condition` is true; return the seconds it took. Fails after the timeout."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited < timeout_seconds, f"{description}: not within {timeout_seconds} s"
        time.sleep(_PAUSE_SECONDS)
    return time.monotonic() - started


async def until_listed(namesrv_addr: str, *names: str) -> None:
    """Return when brokers that auto-create topics are registered: any broker, or all with these names.

    On a busy machine, the first registration of a broker may get lost; it is repeated only after a while.
    """
    async with Client() as client, asyncio.timeout(_LISTED_SECONDS):
        while not await _is_listed(client, namesrv_addr, names):
            await asyncio.sleep(_PAUSE_SECONDS)


async def _is_listed(client: Client, namesrv_addr: str, names: tuple[str, ...]) -> bool:
    try:
        route = await client.call(namesrv_addr, GetRouteInfoByTopic(topic="TBW102"))
    except KeroloxError:
        return False
    return all(f'"{name}"'.encode() in route.body for name in names)
