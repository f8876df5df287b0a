"""Consuming in order: of each queue one batch at a time, and no message before the one before it is done."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from kerolox.client.consumer.handling import Handler, Job, workers
from kerolox.client.consumer.locks import QueueLocks
from kerolox.client.consumer.offsets import Offsets
from kerolox.client.consumer.results import Consumed, Outcome
from kerolox.client.consumer.retry import Retries
from kerolox.client.consumer.window import Window
from kerolox.client.messages import Received
from kerolox.client.waiting import first_of
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

SUSPEND_SECONDS_MIN: Final = 0.01
SUSPEND_SECONDS_MAX: Final = 30.0
# How long to wait before a lock is asked for again that somebody else has.
_LOCK_AGAIN_SECONDS: Final = 3.0


class _Line:
    """One queue: the task that consumes it, and what wakes that."""

    __slots__ = ("filled", "task")

    def __init__(self) -> None:
        self.filled = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Orderly:
    """A task for each queue; a message that fails is tried again where it is, and holds up those after it."""

    def __init__(
        self,
        handler: Handler,
        offsets: Offsets,
        # Both None where all members read all: then every queue is its own, and nothing becomes a dead letter.
        retries: Retries | None,
        locks: QueueLocks | None,
        clock: Clock,
        *,
        count: int,
        batch_size: int,
        suspend_seconds: float,
        reconsume_times_max: int,
        auto_commit: bool,
        observe: Callable[[Job], None],
    ) -> None:
        self._offsets = offsets
        self._retries = retries
        self._locks = locks
        self._clock = clock
        self._batch_size = batch_size
        self._suspend_seconds = suspend_seconds
        self._times_max = reconsume_times_max
        self._auto_commit = auto_commit
        self._observe = observe
        self.workers = workers(handler, count, observe)
        self._turns = asyncio.Semaphore(count)
        self._lines: dict[Window[Received], _Line] = {}
        # Of queues that were given up, as long as the handler has something of them.
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, queue: MessageQueue, window: Window[Received]) -> None:
        line = self._lines[window] = _Line()
        line.task = asyncio.create_task(self._consume(queue, window, line.filled), name=f"consume {queue}")

    def deliver(self, queue: MessageQueue, window: Window[Received], messages: Sequence[Received]) -> None:
        self._lines[window].filled.set()

    async def end(self, queue: MessageQueue, window: Window[Received]) -> None:
        """Returns when the handler has nothing of this queue any more: only then another may have it."""
        line = self._lines.pop(window, None)
        if line is None or line.task is None:
            return
        line.filled.set()
        self._ending.add(line.task)
        await asyncio.wait([line.task])
        self._ending.discard(line.task)

    def give_up_expired(self, timeout_seconds: float) -> None:
        """In order nothing can be given up: what comes after it has to wait."""

    async def _consume(self, queue: MessageQueue, window: Window[Received], filled: asyncio.Event) -> None:
        while not window.is_dropped:
            if not window.waiting_count:
                filled.clear()
                await filled.wait()
            elif self._locks is not None and not self._locks.is_locked(queue):
                if queue not in await self._locks.lock([queue]):
                    await self._rest(window, _LOCK_AGAIN_SECONDS)
            else:
                await self._consume_next(queue, window)

    async def _consume_next(self, queue: MessageQueue, window: Window[Received]) -> None:
        async with self._turns:
            if window.is_dropped:
                return
            job = Job(window.take(self._batch_size), queue, window)
            await self.workers.call(job)
        self._observe(job)
        if job.error is not None:
            log.error("the handler failed for %d messages of %s", len(job.messages), queue, exc_info=job.error)
        if not window.is_dropped:
            await self._settle(job, job.consumed)

    async def _settle(self, job: Job, consumed: Consumed) -> None:
        """Commits, or has the queue rest before the same messages come again."""
        window = job.window
        if consumed.outcome is Outcome.COMMIT or (consumed.outcome is Outcome.SUCCESS and self._auto_commit):
            self._commit(job.queue, window)
        elif consumed.outcome is Outcome.ROLLBACK:
            window.give_back()
            await self._suspend(window, consumed)
        elif consumed.outcome is Outcome.LATER:
            if await self._may_come_again(job.messages):
                window.give_back(len(job.messages))
                await self._suspend(window, consumed)
            elif self._auto_commit:
                self._commit(job.queue, window)

    def _commit(self, queue: MessageQueue, window: Window[Received]) -> None:
        offset = window.commit()
        if offset is not None and not window.is_dropped:
            self._offsets.set(queue, offset)

    async def _may_come_again(self, messages: list[Received]) -> bool:
        """Counts the attempt; messages that were tried too often become dead letters, which is False if all did."""
        is_left = False
        for message in messages:
            if message.reconsume_times < self._times_max or not await self._bury(message):
                message.reconsume_times += 1
                is_left = True
        return is_left

    async def _bury(self, message: Received) -> bool:
        if self._retries is not None:
            return await self._retries.send_again(message)
        log.warning("%s was not consumed, and does not come again: each member reads all", message)
        return True

    async def _suspend(self, window: Window[Received], consumed: Consumed) -> None:
        seconds = self._suspend_seconds if consumed.suspend_seconds is None else consumed.suspend_seconds
        await self._rest(window, min(max(seconds, SUSPEND_SECONDS_MIN), SUSPEND_SECONDS_MAX))

    async def _rest(self, window: Window[Received], seconds: float) -> None:
        """Waits, unless the queue is given up meanwhile: nothing else can leave the window now."""
        await first_of(self._clock.sleep(seconds), window.shrink())

    async def close(self) -> None:
        tasks = [*self._ending, *(line.task for line in self._lines.values() if line.task is not None)]
        self._lines.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.workers.close()
