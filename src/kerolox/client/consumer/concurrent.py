"""Consuming many messages at once, in no order: what fails goes back to the broker, and the rest goes on."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from kerolox.client.consumer.handling import Handler, Job, workers
from kerolox.client.consumer.offsets import Offsets
from kerolox.client.consumer.retry import Retries
from kerolox.client.consumer.window import Window
from kerolox.client.messages import Received
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

# After which time a message is tried again here that no broker would take back.
_AGAIN_SECONDS = 5.0
_EXPIRED_DELAY_LEVEL = 3


class Concurrent:
    """Hands batches to the handler, and commits what lies before the first that is not done."""

    def __init__(
        self,
        handler: Handler,
        offsets: Offsets,
        # None where all members read all: nothing comes again then.
        retries: Retries | None,
        clock: Clock,
        *,
        count: int,
        batch_size: int,
        observe: Callable[[Job], None],
    ) -> None:
        self._offsets = offsets
        self._retries = retries
        self._clock = clock
        self._batch_size = batch_size
        self._observe = observe
        self.workers = workers(handler, count, self._finished)
        self._open: set[Job] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def deliver(self, queue: MessageQueue, window: Window[Received], messages: Sequence[Received]) -> None:
        size = self._batch_size
        if size == 1:
            jobs = [Job([message], queue, window) for message in messages]
        else:
            jobs = [Job(list(messages[at : at + size]), queue, window) for at in range(0, len(messages), size)]
        self._open.update(jobs)
        self.workers.submit(jobs)

    def begin(self, queue: MessageQueue, window: Window[Received]) -> None:
        """Nothing is needed before messages come."""

    async def end(self, queue: MessageQueue, window: Window[Received]) -> None:
        """What is under way may go on: what comes of it does not count any more."""
        self._open = {job for job in self._open if job.window is not window}

    def _finished(self, job: Job) -> None:
        self._open.discard(job)
        if job.is_expired:
            return
        if job.error is not None:
            log.error("the handler failed for %d messages of %s", len(job.messages), job.queue, exc_info=job.error)
        self._observe(job)
        window, consumed = job.window, job.consumed
        if window.is_dropped:
            log.info("%d messages of %s were consumed after it was given to another", len(job.messages), job.queue)
        elif consumed.is_success:
            self._done(job.queue, window, job.messages)
        else:
            self._done(job.queue, window, job.messages[: consumed.succeeded])
            self._start(self._try_later(job, job.messages[consumed.succeeded :], consumed.delay_level))

    def _done(self, queue: MessageQueue, window: Window[Received], messages: list[Received]) -> None:
        offset = window.remove(messages)
        if offset is not None and not window.is_dropped:
            self._offsets.advance(queue, offset)

    async def _try_later(self, job: Job, messages: list[Received], delay_level: int) -> None:
        left: list[Received] = []
        for message in messages:
            if self._retries is None:
                log.warning("%s was not consumed, and does not come again: each member reads all", message)
            elif not await self._retries.send_back(message, delay_level):
                left.append(message)
                continue
            self._done(job.queue, job.window, [message])
        if not left:
            return
        await self._clock.sleep(_AGAIN_SECONDS)
        if not job.window.is_dropped:
            for message in left:
                message.reconsume_times += 1
            self.deliver(job.queue, job.window, left)

    def give_up_expired(self, timeout_seconds: float) -> None:
        """Has messages come again whose handler has not ended in time; they hold up all that comes after them."""
        now = time.monotonic()
        for job in list(self._open):
            if job.started_at and not job.finished_at and now - job.started_at > timeout_seconds:
                log.warning("the handler has had %d messages of %s for too long", len(job.messages), job.queue)
                job.is_expired = True
                self._open.discard(job)
                self._start(self._try_later(job, job.messages, _EXPIRED_DELAY_LEVEL))

    def _start(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work, name="messages that come again")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        await self.workers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
