"""Consumes each queue in order, one batch at a time (ConsumeMessageOrderlyService)."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from kerolox.client.consumer.fetch.process_queue import ProcessQueue
from kerolox.client.consumer.group.queue_locks import QueueLocks
from kerolox.client.consumer.handle.invoke import ConsumeContext, Job, create_workers
from kerolox.client.consumer.handle.results import Consumed, Outcome
from kerolox.client.consumer.settings import PushSettings
from kerolox.client.messages import Received
from kerolox.runtime.waiting import first_of
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

SUSPEND_SECONDS_MIN: Final = 0.01
SUSPEND_SECONDS_MAX: Final = 30.0
# Pause before another attempt to lock a queue that another member has locked.
_LOCK_RETRY_SECONDS: Final = 3.0


class _QueueTask:
    """The task that consumes one queue, and the event that wakes it."""

    __slots__ = ("filled", "task")

    def __init__(self) -> None:
        self.filled = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class ConsumeOrderly:
    """Runs a task for each queue. A failed message is retried in place, and blocks those after it.

    `locks` is None for broadcasting consumers, which read all queues without locking them.
    """

    def __init__(
        self, context: ConsumeContext, settings: PushSettings, reconsume_times_max: int, locks: QueueLocks | None
    ) -> None:
        self._offsets = context.offsets
        self._send_back = context.send_back
        self._locks = locks
        self._clock = context.clock
        self._batch_size = settings.consume_message_batch_max_size
        self._suspend_seconds = settings.suspend_current_queue_seconds
        self._times_max = reconsume_times_max
        self._auto_commit = settings.auto_commit
        self._observe = context.observe
        self.workers = create_workers(context.handler, settings.consume_thread_max, context.observe)
        self._slots = asyncio.Semaphore(settings.consume_thread_max)
        self._queue_tasks: dict[ProcessQueue[Received], _QueueTask] = {}
        # Tasks of queues that are no longer assigned, while the handler still has messages of them.
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, queue: MessageQueue, process_queue: ProcessQueue[Received]) -> None:
        line = self._queue_tasks[process_queue] = _QueueTask()
        line.task = asyncio.create_task(self._consume(queue, process_queue, line.filled), name=f"consume {queue}")

    def deliver(self, queue: MessageQueue, process_queue: ProcessQueue[Received], messages: Sequence[Received]) -> None:
        self._queue_tasks[process_queue].filled.set()

    async def end(self, queue: MessageQueue, process_queue: ProcessQueue[Received]) -> None:
        """Return when the handler has no messages of this queue any more: only then may another member read it."""
        line = self._queue_tasks.pop(process_queue, None)
        if line is None or line.task is None:
            return
        line.filled.set()
        self._ending.add(line.task)
        await asyncio.wait([line.task])
        self._ending.discard(line.task)

    def expire_overdue(self, timeout_seconds: float) -> None:
        """Do nothing: skipping a message would break the order."""

    async def _consume(self, queue: MessageQueue, process_queue: ProcessQueue[Received], filled: asyncio.Event) -> None:
        while not process_queue.is_dropped:
            if not process_queue.waiting_count:
                filled.clear()
                await filled.wait()
            elif self._locks is not None and not self._locks.is_locked(queue):
                if queue not in await self._locks.lock([queue]):
                    await self._wait(process_queue, _LOCK_RETRY_SECONDS)
            else:
                await self._consume_next(queue, process_queue)

    async def _consume_next(self, queue: MessageQueue, process_queue: ProcessQueue[Received]) -> None:
        async with self._slots:
            if process_queue.is_dropped:
                return
            job = Job(process_queue.take(self._batch_size), queue, process_queue)
            await self.workers.call(job)
        self._observe(job)
        if job.error is not None:
            log.error("the handler failed for %d messages of %s", len(job.messages), queue, exc_info=job.error)
        if not process_queue.is_dropped:
            await self._apply_result(job, job.consumed)

    async def _apply_result(self, job: Job, consumed: Consumed) -> None:
        """Commit, or pause the queue before the same messages are consumed again."""
        process_queue = job.process_queue
        if consumed.outcome is Outcome.COMMIT or (consumed.outcome is Outcome.SUCCESS and self._auto_commit):
            self._commit(job.queue, process_queue)
        elif consumed.outcome is Outcome.ROLLBACK:
            process_queue.return_taken()
            await self._suspend(process_queue, consumed)
        elif consumed.outcome is Outcome.LATER:
            if await self._count_attempt(job.messages):
                process_queue.return_taken(len(job.messages))
                await self._suspend(process_queue, consumed)
            elif self._auto_commit:
                self._commit(job.queue, process_queue)

    def _commit(self, queue: MessageQueue, process_queue: ProcessQueue[Received]) -> None:
        offset = process_queue.commit()
        if offset is not None and not process_queue.is_dropped:
            self._offsets.set(queue, offset)

    async def _count_attempt(self, messages: list[Received]) -> bool:
        """Increment the reconsume times, and send messages that exceed the limit to the dead letter queue.

        Returns whether there are messages left to retry.
        """
        has_room = False
        for message in messages:
            if message.reconsume_times < self._times_max or not await self._send_to_dlq(message):
                message.reconsume_times += 1
                has_room = True
        return has_room

    async def _send_to_dlq(self, message: Received) -> bool:
        if self._send_back is not None:
            return await self._send_back.send_copy(message)
        log.warning("%s was not consumed and is dropped: broadcasting consumers have no dead letter queue", message)
        return True

    async def _suspend(self, process_queue: ProcessQueue[Received], consumed: Consumed) -> None:
        seconds = self._suspend_seconds if consumed.suspend_seconds is None else consumed.suspend_seconds
        await self._wait(process_queue, min(max(seconds, SUSPEND_SECONDS_MIN), SUSPEND_SECONDS_MAX))

    async def _wait(self, process_queue: ProcessQueue[Received], seconds: float) -> None:
        """Sleep, or return early if the queue is dropped: nothing else can be removed from it now."""
        await first_of(self._clock.sleep(seconds), process_queue.wait_for_removal())

    async def close(self) -> None:
        tasks = [*self._ending, *(line.task for line in self._queue_tasks.values() if line.task is not None)]
        self._queue_tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.workers.close()
