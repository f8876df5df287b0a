"""Calls the user's handler: a coroutine function in one of several tasks, a plain one in one of several threads."""

import asyncio
import inspect
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, cast

from kerolox.client.consumer.fetch.process_queue import ProcessQueue
from kerolox.client.consumer.group.offset_store import OffsetStore
from kerolox.client.consumer.handle.results import Consumed
from kerolox.client.consumer.handle.send_back import SendBack
from kerolox.client.messages import Received
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

Handler = Callable[[list[Received]], Consumed | None] | Callable[[list[Received]], Awaitable[Consumed | None]]

# How long coroutine handlers that never suspend may run before the event loop can do other work.
_TIME_SLICE_SECONDS: Final = 0.005


class Job:
    """One call of the handler: its messages and its result (ConsumeRequest)."""

    __slots__ = ("consumed", "error", "finished_at", "is_expired", "messages", "process_queue", "queue", "started_at")

    def __init__(self, messages: list[Received], queue: MessageQueue, process_queue: ProcessQueue[Received]) -> None:
        self.messages = messages
        self.queue = queue
        self.process_queue = process_queue
        # time.monotonic(); 0 before the call.
        self.started_at = 0.0
        self.finished_at = 0.0
        self.consumed = Consumed.SUCCESS
        self.error: Exception | None = None
        # It took too long and its messages were sent back: the result is ignored.
        self.is_expired = False

    def set_result(self, result: object) -> None:
        """Set what the handler returned: None is success, a value other than Consumed an error."""
        self.finished_at = time.monotonic()
        if result is None:
            return
        if isinstance(result, Consumed):
            self.consumed = result
        else:
            self.set_error(TypeError(f"the handler must return Consumed or None, not {result!r:.100}"))

    def set_error(self, error: Exception) -> None:
        self.finished_at = time.monotonic()
        self.consumed = Consumed.LATER
        self.error = error


@dataclass(frozen=True, slots=True)
class ConsumeContext:
    """The collaborators of ConsumeConcurrently and ConsumeOrderly."""

    handler: Handler
    offsets: OffsetStore
    # None for broadcasting consumers, which do not retry.
    send_back: SendBack | None
    clock: Clock
    # Called on the event loop with each finished job.
    observe: Callable[[Job], None]


class Workers(ABC):
    """Calls the handler for each job, several concurrently, and then `done` on the event loop.

    Jobs of a dropped ProcessQueue are skipped: neither the handler nor `done` is called.
    """

    @abstractmethod
    def submit(self, jobs: Sequence[Job]) -> None: ...

    @abstractmethod
    async def call(self, job: Job) -> None:
        """Call the handler for one job and wait for it; `done` is not called."""

    @abstractmethod
    async def close(self) -> None:
        """Start no more jobs, and cancel running ones where possible."""


def create_workers(handler: Handler, count: int, done: Callable[[Job], None]) -> Workers:
    if is_coroutine(handler):
        return TaskWorkers(cast("Any", handler), count, done)
    return ThreadWorkers(cast("Any", handler), count, done)


def is_coroutine(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


class TaskWorkers(Workers):
    """A fixed number of tasks that take jobs from a queue.

    A task per job would cost an iteration of the event loop each, even for handlers that never suspend. To keep such
    handlers from blocking the loop, all tasks together yield after a time slice.
    """

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
        self._time_slice_end = 0.0
        self._is_time_slice_due = False

    def submit(self, jobs: Sequence[Job]) -> None:
        self._ready.extend(jobs)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._work(), name=f"consume {number}") for number in range(self._count)]
        if len(self._idle) == self._count:
            self._begin_time_slice()
        self._wake()

    def _wake(self) -> None:
        """Wake one idle task; it wakes the next one if more jobs are ready."""
        while self._idle and not self._is_waking:
            idle = self._idle.pop()
            if not idle.done():
                self._is_waking = True
                idle.set_result(None)

    def _begin_time_slice(self) -> None:
        self._time_slice_end = self._loop.time() + _TIME_SLICE_SECONDS
        self._is_time_slice_due = False

    async def _work(self) -> None:
        ready, loop = self._ready, self._loop
        while True:
            if not ready:
                idle = loop.create_future()
                self._idle.append(idle)
                await idle
                self._is_waking = False
                continue
            if loop.time() > self._time_slice_end:
                if not self._is_time_slice_due:
                    self._is_time_slice_due = True
                    loop.call_soon(self._begin_time_slice)
                await asyncio.sleep(0)
                continue
            job = ready.popleft()
            if job.process_queue.is_dropped:
                continue
            if ready:
                self._wake()
            await self.call(job)
            self._done(job)

    async def call(self, job: Job) -> None:
        job.started_at = time.monotonic()
        try:
            job.set_result(await self._handler(job.messages))
        except Exception as error:
            job.set_error(error)

    async def close(self) -> None:
        self._ready.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class ThreadWorkers(Workers):
    """A fixed number of threads that take jobs from a queue. Finished jobs are passed to the loop in batches."""

    def __init__(self, handler: Callable[[list[Received]], object], count: int, done: Callable[[Job], None]) -> None:
        self._handler = handler
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._ready: SimpleQueue[tuple[Job, asyncio.Future[None] | None] | None] = SimpleQueue()
        self._finished: deque[tuple[Job, asyncio.Future[None] | None]] = deque()
        self._is_drain_scheduled = False
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
            if job.process_queue.is_dropped and waiting is None:
                continue
            job.started_at = time.monotonic()
            try:
                job.set_result(handler(job.messages))
            except Exception as error:
                job.set_error(error)
            finished.append(taken)
            if not self._is_drain_scheduled:
                self._is_drain_scheduled = True
                try:
                    self._loop.call_soon_threadsafe(self._drain)
                except RuntimeError:
                    # The loop was closed before the consumer.
                    return

    def _drain(self) -> None:
        # Reset before reading the deque: a thread that finishes afterwards schedules another drain.
        self._is_drain_scheduled = False
        finished = self._finished
        while finished:
            job, waiting = finished.popleft()
            if waiting is None:
                self._done(job)
            elif not waiting.done():
                waiting.set_result(None)

    async def close(self) -> None:
        """Stop the threads after their current call, without waiting: a running function cannot be cancelled."""
        self._is_closed = True
        for _ in self._threads:
            self._ready.put(None)
