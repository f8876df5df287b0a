"""The push consumer, which calls a handler with messages (DefaultMQPushConsumer)."""

import logging
from collections.abc import Iterable, Mapping
from typing import ClassVar, Unpack

from kerolox.client.consumer.fetch.process_queue import ProcessQueue
from kerolox.client.consumer.fetch.queue_reader import QueueReader
from kerolox.client.consumer.group.member import GroupMember
from kerolox.client.consumer.group.queue_locks import RENEW_SECONDS, QueueLocks
from kerolox.client.consumer.group.rebalance import MessageModel
from kerolox.client.consumer.group.subscriptions import Expression, expressions
from kerolox.client.consumer.handle.concurrently import ConsumeConcurrently
from kerolox.client.consumer.handle.hooks import ConsumeHooks
from kerolox.client.consumer.handle.invoke import ConsumeContext, Handler, Job
from kerolox.client.consumer.handle.orderly import ConsumeOrderly
from kerolox.client.consumer.handle.results import Outcome
from kerolox.client.consumer.handle.send_back import DEAD_LETTER, RECONSUME_TIMES_MAX, UNLIMITED, SendBack
from kerolox.client.consumer.settings import PushKeywords, PushSettings, split_keywords
from kerolox.client.hooks import ConsumeHook
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.client.session.members import DirectResult
from kerolox.client.tracing.tracer import Tracing
from kerolox.message import property_names
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.runtime.service import Periodic, Service
from kerolox.runtime.waiting import first_of

log = logging.getLogger(__name__)

_DIRECT_RESULTS = {
    Outcome.SUCCESS: "CR_SUCCESS",
    Outcome.LATER: "CR_LATER",
    Outcome.COMMIT: "CR_COMMIT",
    Outcome.ROLLBACK: "CR_ROLLBACK",
}


class PushConsumer(GroupMember):
    """Calls `handler` with messages: a coroutine function in tasks, a plain function in threads.

        async with PushConsumer("group", handle, topics={"orders": "*"}, namesrv_addr="127.0.0.1:9876") as consumer:
            await consumer.closed()

    `handle(messages)` gets a list, by default of one message, and returns None or Consumed. If it raises, the messages
    are retried later; after 16 retries they become dead letters.
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
        shared, self.settings = split_keywords(PushSettings, options, dict(keywords))
        super().__init__(group, expressions(topics), shared, self.settings)
        self._handler = handler
        self._consume_service: ConsumeConcurrently | ConsumeOrderly
        self._hooks: list[ConsumeHook] = list(self.settings.hooks)
        self._consume_hooks: ConsumeHooks
        self._tracing: Tracing | None = None
        # None for broadcasting consumers, which do not retry.
        self._send_back: SendBack | None = None

    @property
    def is_orderly(self) -> bool:
        return self.settings.is_orderly

    @property
    def concurrency(self) -> int:
        return self.settings.consume_thread_max

    # Lifecycle

    async def _join(self) -> None:
        if self.settings.enable_trace:
            tracing = Tracing(topic=self.settings.trace_topic, name=f"{self.group}-CONSUME", options=self.options)
            await tracing.start()
            self._tracing = tracing
            self._hooks.append(tracing)
        await super()._join()

    def _services(self) -> list[Service]:
        settings, clock = self.settings, self.options.clock
        self._consume_hooks = ConsumeHooks(self._wrapped_group, self._hooks, clock)
        if settings.message_model is MessageModel.CLUSTERING:
            self._send_back = SendBack(self._session, self._wrapped_group, self._reconsume_times_max)
            if settings.is_orderly:
                self.locks = QueueLocks(self._session, self._wrapped_group, clock)
        handler = self._consume_hooks.wrap(self._handler)
        context = ConsumeContext(handler, self.offsets, self._send_back, clock, self._observe)
        if settings.is_orderly:
            self._consume_service = ConsumeOrderly(context, settings, self._reconsume_times_max, self.locks)
        else:
            self._consume_service = ConsumeConcurrently(context, settings)
        timeout_seconds = settings.consume_timeout_minutes * 60
        services: list[Service] = [
            Periodic(
                "expired messages",
                seconds=timeout_seconds,
                job=lambda: self._consume_service.expire_overdue(timeout_seconds),
                clock=clock,
            )
        ]
        if self.locks is not None:
            services.append(Periodic("locks", seconds=RENEW_SECONDS, job=self._renew_locks, clock=clock))
        return services

    @property
    def _reconsume_times_max(self) -> int:
        if self.settings.max_reconsume_times != -1:
            return self.settings.max_reconsume_times
        return UNLIMITED if self.settings.is_orderly else RECONSUME_TIMES_MAX

    async def _renew_locks(self) -> None:
        assert self.locks is not None
        await self.locks.lock(list(self._readers))
        for reader in [reader for queue, reader in self._readers.items() if not self.locks.is_locked(queue)]:
            # Another member may have the lock. Consuming the messages held here could break the order.
            log.warning("lost the lock of %s", reader.queue)
            await self._remove_queue(reader)
            self._rebalancer.request()

    async def _drain(self) -> None:
        if self.settings.is_orderly and not self.settings.auto_commit:
            # Only the handler decides when to commit; uncommitted messages will be redelivered.
            for reader in self._readers.values():
                reader.process_queue.drop()
        else:
            await first_of(self._wait_until_empty(), self.options.clock.sleep(self.settings.await_termination_seconds))
        left = sum(
            reader.process_queue.count for reader in self._readers.values() if not reader.process_queue.is_dropped
        )
        if left:
            log.warning("closed with %d unconsumed messages, which will be redelivered", left)
        await self._consume_service.close()

    async def _wait_until_empty(self) -> None:
        for reader in list(self._readers.values()):
            while reader.process_queue.count and not reader.process_queue.is_dropped:
                await reader.process_queue.wait_for_removal()

    async def _leave(self) -> None:
        if hasattr(self, "_consume_service"):
            await self._consume_service.close()
        if self._tracing is not None:
            await self._tracing.close()
        await super()._leave()

    def suspend(self) -> None:
        """Stop pulling until `resume`; messages that were pulled before are still consumed."""
        self.may_pull.clear()

    def resume(self) -> None:
        self.may_pull.set()

    # Messages

    @property
    def _span_max(self) -> int | None:
        return None if self.settings.is_orderly else self.settings.consume_concurrently_max_span

    def on_messages(self, reader: QueueReader, messages: list[Received]) -> None:
        counts = self.statistics.of(reader.queue.topic)
        counts.pulls += 1
        counts.pulled += len(messages)
        self._consume_service.deliver(reader.queue, reader.process_queue, messages)

    def _queue_added(self, reader: QueueReader) -> None:
        self._consume_service.begin(reader.queue, reader.process_queue)

    async def _queue_removed(self, reader: QueueReader) -> None:
        await self._consume_service.end(reader.queue, reader.process_queue)

    def on_unreadable(self, reader: QueueReader, record: Record, error: CompressionError) -> None:
        """Send the message to the dead letter queue, where operators can inspect it."""
        super().on_unreadable(reader, record, error)
        if self._send_back is not None:
            topic = self.options.unwrap(record.get(property_names.RETRY_TOPIC) or record.topic)
            message = Received(record, reader.queue, topic, record.body, record.reconsume_times)
            self._session.run_in_background(self._send_to_dlq(self._send_back, message), "dead letter")

    @staticmethod
    async def _send_to_dlq(send_back: SendBack, message: Received) -> None:
        await send_back.send_back(message, DEAD_LETTER)

    def _observe(self, job: Job) -> None:
        counts = self.statistics.of(job.queue.topic)
        counts.calls += 1
        counts.consume_seconds += job.finished_at - job.started_at
        if job.consumed.is_success:
            counts.consumed += len(job.messages)
        else:
            counts.failed += len(job.messages)
        self._consume_hooks.after(job)

    # For operators

    async def consume_directly(self, message: Received) -> DirectResult:
        """Call the handler with one message for an operator; nothing is committed."""
        job = Job([message], message.queue, ProcessQueue())
        await self._consume_service.workers.call(job)
        self._consume_hooks.discard(job)
        return DirectResult(
            consume_result="CR_THROW_EXCEPTION" if job.error is not None else _DIRECT_RESULTS[job.consumed.outcome],
            order=self.settings.is_orderly,
            auto_commit=self.settings.auto_commit,
            remark=None if job.error is None else f"{type(job.error).__name__}: {job.error}",
            spent_time_mills=int((job.finished_at - job.started_at) * 1000),
        )
