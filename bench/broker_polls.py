"""Memory of a broker that holds long polls of idle consumers."""

from __future__ import annotations

import contextlib
import time

from bench.connections import ask, connect
from bench.frames import OPAQUE_FIRST, decode
from bench.measure import Memory, memory
from bench.messages import QUEUES, long_poll, max_offset

_CONNECTIONS = 100
_SETTLE_SECONDS = 2.0


def hold_polls(port: int, pid: int, topic: str, count: int) -> tuple[Memory, Memory]:
    """Return the memory of `pid` with the connections open, and with `count` long polls waiting on them."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(port)) for _ in range(_CONNECTIONS)]
        ends = [_offset(ask(connections[0], max_offset(topic, queue_id))) for queue_id in range(QUEUES)]
        for connection in connections:
            ask(connection, max_offset(topic, 0))
        time.sleep(_SETTLE_SECONDS)
        before = memory(pid)
        for number in range(count):
            queue_id = number // _CONNECTIONS % QUEUES
            poll = long_poll(topic, queue_id, ends[queue_id], OPAQUE_FIRST + 1 + number)
            connections[number % _CONNECTIONS].sendall(poll)
        for connection in connections:
            # The response to the last request shows that the broker has received the earlier ones.
            opaque = decode(ask(connection, max_offset(topic, 0))).header["opaque"]
            if opaque != OPAQUE_FIRST:
                raise RuntimeError(f"long poll {opaque} was answered at once")
        time.sleep(_SETTLE_SECONDS)
        return before, memory(pid)


def _offset(frame: bytes) -> int:
    return int(decode(frame).header["extFields"]["offset"])
