"""An event loop for servers: work collected from all sockets of one loop iteration runs once, at its end.

For every readable socket asyncio's own loop creates a handle and runs it in a context, and it has no hook for the end
of an iteration ("turn"). A server that stores messages needs neither handle nor context per socket, but wants to append
and answer all messages of a turn together. So here the selector calls the readers directly from `select`, and runs the
jobs they left (`at_end_of_turn`) after the last of them.

Without epoll, or under another event loop, the functions of this module fall back to asyncio's.
"""

import asyncio
import math
import os
import select
import selectors
import sys
from collections.abc import Callable, Coroutine
from time import perf_counter_ns
from typing import Any, TypeVar

T = TypeVar("T")

Job = Callable[[], object]

# Sockets served in one turn; the rest are served in the next.
_EVENTS_MAX = 512
# A client that waits for each response gets one per turn, and clients with many requests in flight fill any buffer. If
# a turn reads from both kinds, the bytes that it reads are limited such that it takes about this time. Shorter turns
# cost more CPU per message, so other turns are not limited.
_FAIR_TURN_NANOS = 2_500_000
_TURN_SIZE_MIN, _TURN_SIZE_MAX = 32 * 1024, 1024 * 1024
_READ_SIZE_MIN, READ_SIZE_MAX = 4 * 1024, 128 * 1024
# A socket with less than this share of what it might read has few requests in flight.
_LIGHT_RATIO = 8
# Sleeping in epoll and being woken costs about as much CPU as answering a message. If the last poll returned within
# this time, the next one busy-polls for as long before it sleeps.
_BUSY_POLL_NANOS = 60_000


def run(main: Coroutine[Any, Any, T]) -> T:
    """Do what `asyncio.run` does, on a ServerLoop where the platform has epoll."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a ServerLoop where the platform has epoll, else asyncio's default loop."""
    return ServerLoop() if sys.platform == "linux" else asyncio.new_event_loop()


def at_end_of_turn(loop: asyncio.AbstractEventLoop, job: Job) -> None:
    """Run `job` once, after all sockets of this turn were read; under another loop, in the next turn."""
    if isinstance(loop, ServerLoop):
        loop.at_end_of_turn(job)
    else:
        loop.call_soon(job)


def add_reader(loop: asyncio.AbstractEventLoop, descriptor: int, reader: Job) -> None:
    """Call `reader` whenever the descriptor is readable. It must not be registered for writing at the same time."""
    if isinstance(loop, ServerLoop):
        loop.selector.add_reader(descriptor, reader)
    else:
        loop.add_reader(descriptor, reader)


def remove_reader(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    if isinstance(loop, ServerLoop):
        loop.selector.remove_reader(descriptor)
    else:
        loop.remove_reader(descriptor)


def read_budget(loop: asyncio.AbstractEventLoop) -> "ReadBudget":
    """Return the budget of a loop; under another loop than ours it never limits a read."""
    return loop.selector.budget if isinstance(loop, ServerLoop) else ReadBudget()


class ReadBudget:
    """Limits the bytes that one turn reads, if clients with many and with few requests in flight share it."""

    __slots__ = ("_has_few", "_has_many", "_turn_size", "size")

    def __init__(self) -> None:
        # The number of bytes that one socket may read in this turn.
        self.size = READ_SIZE_MAX
        self._turn_size = _TURN_SIZE_MAX
        self._has_few = self._has_many = False

    def begin(self, socket_count: int) -> None:
        self.size = min(max(self._turn_size // socket_count, _READ_SIZE_MIN), READ_SIZE_MAX)
        self._has_few = self._has_many = False

    def note(self, size: int) -> None:
        """Take note of how many bytes a socket has read."""
        if size >= self.size:
            self._has_many = True
        elif size * _LIGHT_RATIO < self.size:
            self._has_few = True

    def end(self, nanos: int) -> None:
        """Adapt to the duration of a turn: shrink by half at most, grow slowly."""
        size = self._turn_size
        if self._has_many and self._has_few and nanos > _FAIR_TURN_NANOS:
            self._turn_size = max(size * _FAIR_TURN_NANOS // nanos, size // 2, _TURN_SIZE_MIN)
        elif size < _TURN_SIZE_MAX:
            self._turn_size = min(size + size // 16, _TURN_SIZE_MAX)


if sys.platform == "linux":

    class ServerSelector(selectors.EpollSelector):
        """Polls, calls its own readers, and returns all other events to asyncio."""

        def __init__(self, on_failure: Callable[[Exception], None]) -> None:
            super().__init__()
            # A second descriptor of the same epoll instance: `selectors` gives no other public access to it.
            self._epoll = select.epoll.fromfd(os.dup(self.fileno()))
            self._readers: dict[int, Job] = {}
            self._is_busy_polling = False
            self._on_failure = on_failure
            self.budget = ReadBudget()
            self.jobs: list[Job] = []

        def close(self) -> None:
            self._epoll.close()
            super().close()

        def add_reader(self, descriptor: int, reader: Job) -> None:
            self._epoll.register(descriptor, select.EPOLLIN)
            self._readers[descriptor] = reader

        def remove_reader(self, descriptor: int) -> None:
            if self._readers.pop(descriptor, None) is not None:
                self._epoll.unregister(descriptor)

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if self.jobs:
                # Jobs left by asyncio callbacks since the last poll. They may schedule callbacks in turn, which
                # asyncio did not know of when it computed the timeout.
                self._end_turn()
                timeout = 0
            wait = -1.0 if timeout is None else math.ceil(timeout * 1000) / 1000 if timeout > 0 else 0
            readers = self._readers
            found: list[tuple[selectors.SelectorKey, int]] = []
            events = self._poll(wait)
            started_at = perf_counter_ns()
            self.budget.begin(len(events) or 1)
            for descriptor, event in events:
                reader = readers.get(descriptor)
                if reader is None:
                    self._pass_to_asyncio(descriptor, event, found)
                    continue
                try:
                    reader()
                except Exception as error:
                    self._on_failure(error)
            if self.jobs:
                self._end_turn()
            self.budget.end(perf_counter_ns() - started_at)
            return found

        def _poll(self, wait: float) -> list[tuple[int, int]]:
            """Wait for events; busy-polls first if the last wait was short."""
            poll, deadline = self._epoll.poll, perf_counter_ns() + _BUSY_POLL_NANOS
            try:
                while self._is_busy_polling and wait and perf_counter_ns() < deadline:
                    events = poll(0, _EVENTS_MAX)
                    if events:
                        return events
                    # Let other runnable threads have this processor.
                    os.sched_yield()
                events = poll(wait, _EVENTS_MAX)
            except InterruptedError:
                return []
            if wait:
                self._is_busy_polling = perf_counter_ns() < deadline
            return events

        def _pass_to_asyncio(self, descriptor: int, event: int, found: list[tuple[selectors.SelectorKey, int]]) -> None:
            key = self.get_map().get(descriptor)
            # None if a reader called earlier in this turn has unregistered the descriptor.
            if key is not None:
                mask = (event & ~select.EPOLLIN and selectors.EVENT_WRITE) | (
                    event & ~select.EPOLLOUT and selectors.EVENT_READ
                )
                found.append((key, mask & key.events))

        def _end_turn(self) -> None:
            # A job may add more jobs; they belong to this turn too.
            while self.jobs:
                jobs, self.jobs = self.jobs, []
                for job in jobs:
                    try:
                        job()
                    except Exception as error:
                        self._on_failure(error)

    class ServerLoop(asyncio.SelectorEventLoop):
        """asyncio's loop over a ServerSelector."""

        def __init__(self) -> None:
            self.selector = ServerSelector(self._report)
            super().__init__(self.selector)

        def at_end_of_turn(self, job: Job) -> None:
            self.selector.jobs.append(job)

        def _report(self, error: Exception) -> None:
            self.call_exception_handler({"message": "a socket reader or an end-of-turn job failed", "exception": error})

else:

    class ServerLoop(asyncio.SelectorEventLoop):
        """Never instantiated on platforms without epoll; it only exists for the isinstance checks."""
