"""Memory of a server with idle connections."""

from __future__ import annotations

import contextlib
import time

from bench.connections import ask, connect
from bench.measure import Memory, memory

# One source address has 28,000 ports for one target; several addresses allow for ports in TIME_WAIT.
_SOURCES = tuple(f"127.0.0.{number}" for number in range(2, 8))
_SETTLE_SECONDS = 1.0


def hold(port: int, pid: int, count: int, request: bytes) -> tuple[Memory, Memory]:
    """Return the memory of `pid` before and while `count` connections are open.

    Each connection sends one request, whose response proves that the server has accepted it, and is idle afterwards.
    """
    before = memory(pid)
    with contextlib.ExitStack() as stack:
        for number in range(count):
            connection = stack.enter_context(connect(port, _SOURCES[number % len(_SOURCES)]))
            ask(connection, request)
        time.sleep(_SETTLE_SECONDS)
        after = memory(pid)
    return before, after
