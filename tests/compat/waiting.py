"""Polls for an effect of another process until a deadline, and returns the time it took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from kerolox.errors import KeroloxError
from kerolox.remoting.client import Client
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic

_PAUSE_SECONDS = 0.1
_LISTED_SECONDS = 90.0


def eventually(question: Callable[[], bool], timeout_seconds: float, what: str) -> float:
    """Returns after how many seconds `question` was first true; fails at the deadline."""
    started = time.monotonic()
    while not question():
        waited = time.monotonic() - started
        assert waited < timeout_seconds, f"{what}: not within {timeout_seconds} s"
        time.sleep(_PAUSE_SECONDS)
    return time.monotonic() - started


async def until_listed(namesrv_addr: str, *names: str) -> None:
    """Returns when brokers that auto-create topics are registered: any, or all with these names.

    On a busy machine the first registration of one that has begun to serve may be lost, and the next comes later.
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
