"""Consumes messages concurrently and in any order; failed ones are sent back (ConsumeMessageConcurrentlyService)."""

import asyncio
import logging
import time
from collections.abc import Sequence

from kerolox.client.consumer.fetch.process_queue import ProcessQueue
from kerolox.client.consumer.handle.invoke import ConsumeContext, Job, create_workers
from kerolox.client.consumer.settings import PushSettings
from kerolox.client.messages import Received
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

# Pause before a message is consumed again here that could not be sent back to a broker.
_LOCAL_RETRY_SECONDS = 5.0
_EXPIRED_DELAY_LEVEL = 3


class ConsumeConcurrently:
    """Calls the handler with batches, and advances the offset to the first unconsumed message."""

    def __init__(self, context: ConsumeContext, settings: PushSettings) -> None:
        self._offsets = context.offsets
        self._send_back = context.send_back
        self._clock = context.clock
        self._batch_size = settings.consume_message_batch_max_size
        self._observe = context.observe
        self.workers = create_workers(context.handler, settings.consume_thread_max, self._finished)
        self._unfinished: set[Job] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def deliver(self, queue: MessageQueue, process_queue: ProcessQueue[Received], messages: Sequence[Received]) -> None:
        size = self._batch_size
        if size == 1:
            jobs = [Job([message], queue, process_queue) for message in messages]
        else:
            jobs = [Job(list(messages[at : at + size]), queue, process_queue) for at in range(0, len(messages), size)]
        self._unfinished.update(jobs)
        self.workers.submit(jobs)

    def begin(self, queue: MessageQueue, process_queue: ProcessQueue[Received]) -> None:
        """Do nothing: no preparation is needed before the first message."""

    async def end(self, queue: MessageQueue, process_queue: ProcessQueue[Received]) -> None:
        """Forget the jobs of the queue. Running ones may finish, but their results are ignored."""
        self._unfinished = {job for job in self._unfinished if job.process_queue is not process_queue}

    def _finished(self, job: Job) -> None:
        self._unfinished.discard(job)
        if job.is_expired:
            return
        if job.error is not None:
            log.error("the handler failed for %d messages of %s", len(job.messages), job.queue, exc_info=job.error)
        self._observe(job)
        process_queue, consumed = job.process_queue, job.consumed
        if process_queue.is_dropped:
            log.info("%d messages of %s were consumed after it was reassigned", len(job.messages), job.queue)
        elif consumed.is_success:
            self._remove(job.queue, process_queue, job.messages)
        else:
            self._remove(job.queue, process_queue, job.messages[: consumed.succeeded])
            self._start(self._retry_later(job, job.messages[consumed.succeeded :], consumed.delay_level))

    def _remove(self, queue: MessageQueue, process_queue: ProcessQueue[Received], messages: list[Received]) -> None:
        offset = process_queue.remove(messages)
        if offset is not None and not process_queue.is_dropped:
            self._offsets.advance(queue, offset)

    async def _retry_later(self, job: Job, messages: list[Received], delay_level: int) -> None:
        left: list[Received] = []
        for message in messages:
            if self._send_back is None:
                log.warning("%s was not consumed and is dropped: broadcasting consumers do not retry", message)
            elif not await self._send_back.send_back(message, delay_level):
                left.append(message)
                continue
            self._remove(job.queue, job.process_queue, [message])
        if not left:
            return
        await self._clock.sleep(_LOCAL_RETRY_SECONDS)
        if not job.process_queue.is_dropped:
            for message in left:
                message.reconsume_times += 1
            self.deliver(job.queue, job.process_queue, left)

    def expire_overdue(self, timeout_seconds: float) -> None:
        """Send back messages whose handler runs too long: they block the commit of all messages after them."""
        now = time.monotonic()
        for job in list(self._unfinished):
            if job.started_at and not job.finished_at and now - job.started_at > timeout_seconds:
                log.warning(
                    "the handler took more than %g s for %d messages of %s, which are sent back",
                    timeout_seconds,
                    len(job.messages),
                    job.queue,
                )
                job.is_expired = True
                self._unfinished.discard(job)
                self._start(self._retry_later(job, job.messages, _EXPIRED_DELAY_LEVEL))

    def _start(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work, name="retry messages")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        await self.workers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
