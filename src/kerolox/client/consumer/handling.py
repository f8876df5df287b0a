"""How a user's handler is called: a coroutine in one of several tasks, a plain function in one of several threads."""

import asyncio
import inspect
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from queue import SimpleQueue
from typing import Any, Final, cast

from kerolox.client.consumer.results import Consumed
from kerolox.client.consumer.window import Window
from kerolox.client.messages import Received
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

Handler = Callable[[list[Received]], Consumed | None] | Callable[[list[Received]], Awaitable[Consumed | None]]

# How long a handler that never waits may keep the event loop from all else.
_HOLD_SECONDS: Final = 0.005


class Job:
    """Messages for one call of the handler, and what came of it."""

    __slots__ = ("consumed", "error", "finished_at", "is_expired", "messages", "queue", "started_at", "window")

    def __init__(self, messages: list[Received], queue: MessageQueue, window: Window[Received]) -> None:
        self.messages = messages
        self.queue = queue
        self.window = window
        # By time.monotonic(); 0 before it began.
        self.started_at = 0.0
        self.finished_at = 0.0
        self.consumed = Consumed.SUCCESS
        self.error: Exception | None = None
        # It took so long that its messages were given up, whatever still comes of it.
        self.is_expired = False

    def take(self, result: object) -> None:
        """Notes what the handler returned; None is success, and what is no result at all is a failure."""
        self.finished_at = time.monotonic()
        if result is None:
            return
        if isinstance(result, Consumed):
            self.consumed = result
        else:
            self.fail(TypeError(f"a handler returns Consumed or None, not {result!r:.100}"))

    def fail(self, error: Exception) -> None:
        self.finished_at = time.monotonic()
        self.consumed = Consumed.LATER
        self.error = error


class Workers(ABC):
    """Calls the handler for each job, some at once, and says on the event loop when one is done.

    A job of a window that was dropped meanwhile is not begun, and nothing is said of it.
    """

    @abstractmethod
    def submit(self, jobs: Sequence[Job]) -> None: ...

    @abstractmethod
    async def call(self, job: Job) -> None:
        """Calls the handler for one job and waits for it; nothing is said to anybody else."""

    @abstractmethod
    async def close(self) -> None:
        """Begins nothing more, and ends what is under way as far as that is possible."""


def workers(handler: Handler, count: int, done: Callable[[Job], None]) -> Workers:
    """Returns what suits the handler."""
    if is_coroutine(handler):
        return TaskWorkers(cast("Any", handler), count, done)
    return ThreadWorkers(cast("Any", handler), count, done)


def is_coroutine(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


class TaskWorkers(Workers):
    """Tasks that take jobs one after the other: a handler that does not wait costs no turn of the loop."""

    def __init__(
        self, handler: Callable[[list[Received]], Awaitable[object]], count: int, done: Callable[[Job], None]
    ) -> None:
        self._handler = handler
        self._done = done
        self._ready: deque[Job] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._is_waking = False
        self._loop = asyncio.get_running_loop()
        self._count = count
        self._tasks: list[asyncio.Task[None]] = []
        # All tasks together leave the loop to others at this time.
        self._hold_until = 0.0
        self._is_turn_due = False

    def submit(self, jobs: Sequence[Job]) -> None:
        self._ready.extend(jobs)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._work(), name=f"consume {number}") for number in range(self._count)]
        if len(self._idle) == self._count:
            self._begin_turn()
        self._wake()

    def _wake(self) -> None:
        """Wakes one; it wakes the next if there is more to do than it can begin."""
        while self._idle and not self._is_waking:
            idle = self._idle.pop()
            if not idle.done():
                self._is_waking = True
                idle.set_result(None)

    def _begin_turn(self) -> None:
        self._hold_until = self._loop.time() + _HOLD_SECONDS
        self._is_turn_due = False

    async def _work(self) -> None:
        ready, loop = self._ready, self._loop
        while True:
            if not ready:
                idle = loop.create_future()
                self._idle.append(idle)
                await idle
                self._is_waking = False
                continue
            if loop.time() > self._hold_until:
                if not self._is_turn_due:
                    self._is_turn_due = True
                    loop.call_soon(self._begin_turn)
                await asyncio.sleep(0)
                continue
            job = ready.popleft()
            if job.window.is_dropped:
                continue
            if ready:
                self._wake()
            await self.call(job)
            self._done(job)

    async def call(self, job: Job) -> None:
        job.started_at = time.monotonic()
        try:
            job.take(await self._handler(job.messages))
        except Exception as error:
            job.fail(error)

    async def close(self) -> None:
        self._ready.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class ThreadWorkers(Workers):
    """Threads that take jobs one after the other; the loop hears of several that are done in one go."""

    def __init__(self, handler: Callable[[list[Received]], object], count: int, done: Callable[[Job], None]) -> None:
        self._handler = handler
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._ready: SimpleQueue[tuple[Job, asyncio.Future[None] | None] | None] = SimpleQueue()
        self._finished: deque[tuple[Job, asyncio.Future[None] | None]] = deque()
        self._is_told = False
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"kerolox consume {number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        put = self._ready.put
        for job in jobs:
            put((job, None))

    async def call(self, job: Job) -> None:
        waiting = self._loop.create_future()
        self._ready.put((job, waiting))
        await waiting

    def _work(self) -> None:
        get, handler, finished = self._ready.get, self._handler, self._finished
        while (taken := get()) is not None and not self._is_closed:
            job, waiting = taken
            if job.window.is_dropped and waiting is None:
                continue
            job.started_at = time.monotonic()
            try:
                job.take(handler(job.messages))
            except Exception as error:
                job.fail(error)
            finished.append(taken)
            if not self._is_told:
                self._is_told = True
                try:
                    self._loop.call_soon_threadsafe(self._drain)
                except RuntimeError:
                    # The loop has ended before its consumer was closed.
                    return

    def _drain(self) -> None:
        # First this, then the look: whoever finishes in between calls again.
        self._is_told = False
        finished = self._finished
        while finished:
            job, waiting = finished.popleft()
            if waiting is None:
                self._done(job)
            elif not waiting.done():
                waiting.set_result(None)

    async def close(self) -> None:
        """A function cannot be ended from outside: what is under way goes on, and nobody waits for it."""
        self._is_closed = True
        for _ in self._threads:
            self._ready.put(None)
