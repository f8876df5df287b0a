"""The push consumer: messages come to a handler, as many at once as it can take."""

import logging
from collections.abc import Iterable, Mapping
from typing import ClassVar, Unpack

from kerolox.client.consumer.concurrent import Concurrent
from kerolox.client.consumer.handling import Handler, Job
from kerolox.client.consumer.hooked import HookedCalls
from kerolox.client.consumer.locks import RENEW_SECONDS, QueueLocks
from kerolox.client.consumer.member import GroupMember
from kerolox.client.consumer.orderly import Orderly
from kerolox.client.consumer.reading import Reader
from kerolox.client.consumer.rebalance import MessageModel
from kerolox.client.consumer.results import Outcome
from kerolox.client.consumer.retry import DEAD_LETTER, RECONSUME_TIMES_MAX, UNLIMITED, Retries
from kerolox.client.consumer.settings import PushKeywords, PushSettings, parted
from kerolox.client.consumer.subscriptions import Expression, expressions
from kerolox.client.consumer.window import Window
from kerolox.client.hooks import ConsumeHook
from kerolox.client.members import DirectResult
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.client.tracing import Tracing
from kerolox.client.waiting import first_of
from kerolox.message import names
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.runtime.service import Periodic, Service

log = logging.getLogger(__name__)

_DIRECT_RESULTS = {
    Outcome.SUCCESS: "CR_SUCCESS",
    Outcome.LATER: "CR_LATER",
    Outcome.COMMIT: "CR_COMMIT",
    Outcome.ROLLBACK: "CR_ROLLBACK",
}


class PushConsumer(GroupMember):
    """Hands messages to `handler`: a coroutine, or a plain function, which then runs in threads.

        async with PushConsumer("group", handle, topics={"orders": "*"}, namesrv_addr="127.0.0.1:9876") as consumer:
            await consumer.closed()

    `handle(messages)` gets a list, of one message unless more are allowed. It returns None, or Consumed; what it
    raises has its messages come again later, and after 16 times they are dead letters.
    """

    consume_type: ClassVar[str] = "CONSUME_PASSIVELY"

    def __init__(
        self,
        group: str,
        handler: Handler,
        *,
        topics: Mapping[str, Expression] | Iterable[str] | str,
        options: Options | None = None,
        **keywords: Unpack[PushKeywords],
    ) -> None:
        shared, self.settings = parted(PushSettings, options, dict(keywords))
        super().__init__(group, expressions(topics), shared, self.settings)
        self._handler = handler
        self._consumption: Concurrent | Orderly
        self._hooks: list[ConsumeHook] = list(self.settings.hooks)
        self._hooked: HookedCalls
        self._tracing: Tracing | None = None
        # None where all members read all: nothing comes again then.
        self._retries: Retries | None = None

    @property
    def is_orderly(self) -> bool:
        return self.settings.is_orderly

    @property
    def concurrency(self) -> int:
        return self.settings.consume_thread_max

    # Its life

    async def _join(self) -> None:
        if self.settings.enable_trace:
            tracing = Tracing(topic=self.settings.trace_topic, name=f"{self.group}-CONSUME", options=self.options)
            await tracing.start()
            self._tracing = tracing
            self._hooks.append(tracing)
        await super()._join()

    def _services(self) -> list[Service]:
        settings, clock = self.settings, self.options.clock
        self._hooked = HookedCalls(self._wrapped_group, self._hooks, clock)
        handler = self._hooked.wrapped(self._handler)
        if settings.max_reconsume_times != -1:
            times_max = settings.max_reconsume_times
        else:
            times_max = UNLIMITED if settings.is_orderly else RECONSUME_TIMES_MAX
        if settings.message_model is MessageModel.CLUSTERING:
            self._retries = Retries(self._session, self._wrapped_group, times_max)
            if settings.is_orderly:
                self.locks = QueueLocks(self._session, self._wrapped_group, clock)
        if settings.is_orderly:
            self._consumption = Orderly(
                handler,
                self.offsets,
                self._retries,
                self.locks,
                clock,
                count=settings.consume_thread_max,
                batch_size=settings.consume_message_batch_max_size,
                suspend_seconds=settings.suspend_current_queue_seconds,
                reconsume_times_max=times_max,
                auto_commit=settings.auto_commit,
                observe=self._observe,
            )
        else:
            self._consumption = Concurrent(
                handler,
                self.offsets,
                self._retries,
                clock,
                count=settings.consume_thread_max,
                batch_size=settings.consume_message_batch_max_size,
                observe=self._observe,
            )
        timeout_seconds = settings.consume_timeout_minutes * 60
        services: list[Service] = [
            Periodic(
                "expired messages",
                seconds=timeout_seconds,
                job=lambda: self._consumption.give_up_expired(timeout_seconds),
                clock=clock,
            )
        ]
        if self.locks is not None:
            services.append(Periodic("locks", seconds=RENEW_SECONDS, job=self._renew_locks, clock=clock))
        return services

    async def _renew_locks(self) -> None:
        assert self.locks is not None
        await self.locks.lock(list(self._readers))
        for reader in [reader for queue, reader in self._readers.items() if not self.locks.is_locked(queue)]:
            # Another has it now, or may have it soon: what is in hand here would be consumed out of order.
            log.warning("the lock on %s was lost", reader.queue)
            await self._lose(reader)
            self._rebalancer.soon()

    async def _finish(self) -> None:
        if self.settings.is_orderly and not self.settings.auto_commit:
            # Only the handler knows when to commit; what it has not by now comes again.
            for reader in self._readers.values():
                reader.window.drop()
        else:
            await first_of(self._emptied(), self.options.clock.sleep(self.settings.await_termination_seconds))
        left = sum(reader.window.count for reader in self._readers.values() if not reader.window.is_dropped)
        if left:
            log.warning("closed with %d messages in hand, which come again", left)
        await self._consumption.close()

    async def _emptied(self) -> None:
        for reader in list(self._readers.values()):
            while reader.window.count and not reader.window.is_dropped:
                await reader.window.shrink()

    async def _leave(self) -> None:
        if hasattr(self, "_consumption"):
            await self._consumption.close()
        if self._tracing is not None:
            await self._tracing.close()
        await super()._leave()

    def suspend(self) -> None:
        """Reads no more until `resume`; what is in hand is consumed."""
        self.is_open.clear()

    def resume(self) -> None:
        self.is_open.set()

    # Messages

    @property
    def _span_max(self) -> int | None:
        return None if self.settings.is_orderly else self.settings.consume_concurrently_max_span

    def delivered(self, reader: Reader, messages: list[Received]) -> None:
        counts = self.statistics.of(reader.queue.topic)
        counts.pulls += 1
        counts.pulled += len(messages)
        self._consumption.deliver(reader.queue, reader.window, messages)

    def _taken(self, reader: Reader) -> None:
        self._consumption.begin(reader.queue, reader.window)

    async def _lost(self, reader: Reader) -> None:
        await self._consumption.end(reader.queue, reader.window)

    def unreadable(self, reader: Reader, record: Record, error: CompressionError) -> None:
        """No handler will ever have use for it, and somebody may want to see it: it becomes a dead letter."""
        super().unreadable(reader, record, error)
        if self._retries is not None:
            topic = self.options.unwrap(record.get(names.RETRY_TOPIC) or record.topic)
            message = Received(record, reader.queue, topic, record.body, record.reconsume_times)
            self._session.run(self._bury(self._retries, message), "dead letter")

    @staticmethod
    async def _bury(retries: Retries, message: Received) -> None:
        await retries.send_back(message, DEAD_LETTER)

    def _observe(self, job: Job) -> None:
        counts = self.statistics.of(job.queue.topic)
        counts.calls += 1
        counts.consume_seconds += job.finished_at - job.started_at
        if job.consumed.is_success:
            counts.consumed += len(job.messages)
        else:
            counts.failed += len(job.messages)
        self._hooked.after(job)

    # For operators

    async def consume_directly(self, message: Received) -> DirectResult:
        """Calls the handler with one message that an operator chose; nothing is committed."""
        window: Window[Received] = Window()
        job = Job([message], message.queue, window)
        await self._consumption.workers.call(job)
        self._hooked.forget(job)
        return DirectResult(
            consume_result="CR_THROW_EXCEPTION" if job.error is not None else _DIRECT_RESULTS[job.consumed.outcome],
            order=self.settings.is_orderly,
            auto_commit=self.settings.auto_commit,
            remark=None if job.error is None else f"{type(job.error).__name__}: {job.error}",
            spent_time_mills=int((job.finished_at - job.started_at) * 1000),
        )
