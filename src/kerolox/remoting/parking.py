"""Requests that wait for something to happen: outside their lane, and no longer than their connection lasts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kerolox.remoting.connection import Connection
from kerolox.runtime.lanes import Lane

# Nobody waits longer for a message, whatever was asked for; Java's clients ask for 15 to 30 seconds.
WAIT_SECONDS_MAX = 600.0


class Parked:
    """While it is entered, the request that this task answers has no place in its lane, and ends with its connection.

    SystemBusy if too many wait already.
    """

    __slots__ = ("_connection", "_lane", "_task")

    def __init__(self, lane: Lane, connection: Connection) -> None:
        self._lane = lane
        self._connection = connection
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> None:
        self._lane.park()
        self._task = asyncio.current_task()
        assert self._task is not None
        self._connection.park(self._task)

    def __exit__(self, *_: object) -> None:
        assert self._task is not None
        self._connection.resume(self._task)
        self._lane.resume()


async def turn(lane: Lane, connection: Connection) -> None:
    """Waits, parked, until the peer has read enough of what it was sent: before records are read for it."""
    with Parked(lane, connection):
        await connection.turn()


@asynccontextmanager
async def alone(lane: Lane, connection: Connection) -> AsyncIterator[None]:
    """The same for what takes a while to be read: until it is answered, nobody else of the connection has a turn."""
    with Parked(lane, connection):
        await connection.turns.acquire()
    try:
        with Parked(lane, connection):
            await connection.drained()
        yield
    finally:
        connection.turns.release()
