"""Memory of a server with idle connections."""

from __future__ import annotations

import contextlib
import time

from bench.connections import ask, connect
from bench.measure import Memory, memory

# One source address has 28,000 ports for one target; several leave room for those still in TIME_WAIT.
_SOURCES = tuple(f"127.0.0.{number}" for number in range(2, 8))
_SETTLE_SECONDS = 1.0


def hold(port: int, pid: int, count: int, request: bytes) -> tuple[Memory, Memory]:
    """Returns the memory of `pid` before and while `count` connections are open.

    Each asks once, which proves that the server has accepted it, and is silent from then on.
    """
    before = memory(pid)
    with contextlib.ExitStack() as held:
        for number in range(count):
            connection = held.enter_context(connect(port, _SOURCES[number % len(_SOURCES)]))
            ask(connection, request)
        time.sleep(_SETTLE_SECONDS)
        after = memory(pid)
    return before, after
