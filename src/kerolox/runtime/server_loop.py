"""An event loop for servers: what many sockets bring in one turn is dealt with together, at the turn's end.

asyncio's own loop makes a handle of each socket that has something to read, runs it in a context, and knows no end of
a turn. A server that stores what came, and answers, needs none of the first and all of the last: here readers are
called where the sockets are polled, and what they left for later runs when the last of them has been called.

Where there is no epoll, or under another loop, the same functions do the same in asyncio's way.
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

# So many sockets have their turn at once; the others have the next.
_EVENTS_MAX = 512
# To be put to sleep and woken takes a processor about as long as to answer a message: who was asked again within this
# time keeps looking for so long, and then sleeps.
_AWAKE_NANOS = 60_000


def run(main: Coroutine[Any, Any, T]) -> T:
    """Does what `asyncio.run` does, on a loop for servers where the system has what that needs."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def new_loop() -> asyncio.AbstractEventLoop:
    """Returns a loop for servers where the system has what that needs, else one of asyncio's."""
    return ServerLoop() if sys.platform == "linux" else asyncio.new_event_loop()


def at_end_of_turn(loop: asyncio.AbstractEventLoop, job: Job) -> None:
    """Has `job` run, once, when all sockets of this turn were read; under another loop, in the next turn."""
    if isinstance(loop, ServerLoop):
        loop.at_end_of_turn(job)
    else:
        loop.call_soon(job)


def add_reader(loop: asyncio.AbstractEventLoop, descriptor: int, reader: Job) -> None:
    """Has `reader` called whenever there is something to read; nobody may want to write to it meanwhile."""
    if isinstance(loop, ServerLoop):
        loop.turns.read(descriptor, reader)
    else:
        loop.add_reader(descriptor, reader)


def remove_reader(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    if isinstance(loop, ServerLoop):
        loop.turns.forget(descriptor)
    else:
        loop.remove_reader(descriptor)


if sys.platform == "linux":

    class Turns(selectors.EpollSelector):
        """Polls, calls the readers it knows itself, and hands the rest to asyncio."""

        def __init__(self) -> None:
            super().__init__()
            self._epoll: select.epoll = self._selector  # type: ignore[attr-defined]
            self._readers: dict[int, Job] = {}
            self._is_awake = False
            self.jobs: list[Job] = []
            self.on_failure: Callable[[Exception], None] = lambda error: None

        def read(self, descriptor: int, reader: Job) -> None:
            self._epoll.register(descriptor, select.EPOLLIN)
            self._readers[descriptor] = reader

        def forget(self, descriptor: int) -> None:
            if self._readers.pop(descriptor, None) is not None:
                self._epoll.unregister(descriptor)

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if self.jobs:
                # They may have something to be run, and asyncio does not know of it when it says how long to wait.
                self._end_turn()
                timeout = 0
            wait = -1.0 if timeout is None else math.ceil(timeout * 1000) / 1000 if timeout > 0 else 0
            readers = self._readers
            found: list[tuple[selectors.SelectorKey, int]] = []
            for descriptor, event in self._poll(wait):
                reader = readers.get(descriptor)
                if reader is None:
                    self._hand_on(descriptor, event, found)
                    continue
                try:
                    reader()
                except Exception as error:
                    self.on_failure(error)
            if self.jobs:
                self._end_turn()
            return found

        def _poll(self, wait: float) -> list[tuple[int, int]]:
            """Waits, awake for a moment if something came as soon as that the last time."""
            poll, deadline = self._epoll.poll, perf_counter_ns() + _AWAKE_NANOS
            try:
                while self._is_awake and wait and perf_counter_ns() < deadline:
                    events = poll(0, _EVENTS_MAX)
                    if events:
                        return events
                    # Whoever else wants this processor may have it.
                    os.sched_yield()
                events = poll(wait, _EVENTS_MAX)
            except InterruptedError:
                return []
            if wait:
                self._is_awake = perf_counter_ns() < deadline
            return events

        def _hand_on(self, descriptor: int, event: int, found: list[tuple[selectors.SelectorKey, int]]) -> None:
            key = self.get_map().get(descriptor)
            # A reader that was called before this one may have closed it.
            if key is not None:
                mask = (event & ~select.EPOLLIN and selectors.EVENT_WRITE) | (
                    event & ~select.EPOLLOUT and selectors.EVENT_READ
                )
                found.append((key, mask & key.events))

        def _end_turn(self) -> None:
            # A job may ask for another, which belongs to this turn, too.
            while self.jobs:
                jobs, self.jobs = self.jobs, []
                for job in jobs:
                    try:
                        job()
                    except Exception as error:
                        self.on_failure(error)

    class ServerLoop(asyncio.SelectorEventLoop):
        """asyncio's loop over `Turns`."""

        def __init__(self) -> None:
            self.turns = Turns()
            self.turns.on_failure = self._tell
            super().__init__(self.turns)

        def at_end_of_turn(self, job: Job) -> None:
            self.turns.jobs.append(job)

        def _tell(self, error: Exception) -> None:
            self.call_exception_handler({"message": "a reader, or what ends a turn, has failed", "exception": error})

else:

    class ServerLoop(asyncio.SelectorEventLoop):
        """There is none without epoll, and so nobody makes one."""
