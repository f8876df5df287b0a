"""Long polls: requests that wait without occupying their request queue, until their connection closes.

RocketMQ keeps them in a list of its own (PullRequestHoldService); here each waits as a task.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kerolox.remoting.connection import Connection
from kerolox.runtime.request_queue import RequestQueue

# An upper bound on the wait that a client may ask for; Java's clients ask for 15 to 30 seconds.
WAIT_SECONDS_MAX = 600.0


class LongPolls:
    """A context in which the current request waits: it leaves its request queue, and ends with its connection.

    SystemBusy on entry if too many requests wait.
    """

    __slots__ = ("_connection", "_request_queue", "_task")

    def __init__(self, request_queue: RequestQueue, connection: Connection) -> None:
        self._request_queue = request_queue
        self._connection = connection
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> None:
        self._request_queue.park()
        self._task = asyncio.current_task()
        assert self._task is not None
        self._connection.park(self._task)

    def __exit__(self, *_: object) -> None:
        assert self._task is not None
        self._connection.resume(self._task)
        self._request_queue.resume()


async def turn(request_queue: RequestQueue, connection: Connection) -> None:
    """Wait as a long poll until the peer has read its earlier responses; called before records are read for it."""
    with LongPolls(request_queue, connection):
        await connection.turn()


@asynccontextmanager
async def alone(request_queue: RequestQueue, connection: Connection) -> AsyncIterator[None]:
    """Like `turn`, for responses that take long to read: other requests of the connection wait until the block ends."""
    with LongPolls(request_queue, connection):
        await connection.turns.acquire()
    try:
        with LongPolls(request_queue, connection):
            await connection.drained()
        yield
    finally:
        connection.turns.release()
