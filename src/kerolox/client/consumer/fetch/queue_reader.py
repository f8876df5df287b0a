"""Pulls one queue ahead of its consumer, until flow control stops it (PullMessageService)."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, Protocol

from kerolox.client.consumer.fetch.process_queue import ProcessQueue
from kerolox.client.consumer.fetch.pull_request import Puller, PullResult
from kerolox.client.consumer.group.offset_store import OffsetStore
from kerolox.client.consumer.group.subscriptions import TagFilter
from kerolox.client.messages import Received, received
from kerolox.client.options import Options
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.client.session.topic_routes import MASTER_ID
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError
from kerolox.message import property_names
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

AFTER_ERROR_SECONDS: Final = 1.0
AFTER_FLOW_CONTROL_SECONDS: Final = 0.02
AFTER_HEARTBEAT_SECONDS: Final = 0.1
# The broker does not have, or not yet, the subscription of the last heartbeat.
_NOT_REGISTERED = frozenset(
    {
        ResponseCode.SUBSCRIPTION_NOT_EXIST.value,
        ResponseCode.SUBSCRIPTION_NOT_LATEST.value,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST.value,
    }
)


@dataclass(slots=True)
class PullThresholds:
    """The limits of unconsumed messages of one queue, above which it is not pulled (flow control)."""

    count_max: int = 1000
    size_max: int = 100 * 1024 * 1024
    # Maximum distance of the last offset from the first; None for orderly consumers.
    span_max: int | None = 2000

    def has_room(self, process_queue: ProcessQueue[Received]) -> bool:
        return (
            process_queue.count <= self.count_max
            and process_queue.size <= self.size_max
            and (self.span_max is None or process_queue.span <= self.span_max)
        )


class Consumer(Protocol):
    """The interface of a consumer for its readers."""

    options: Options
    offsets: OffsetStore
    puller: Puller
    thresholds: PullThresholds
    # Cleared while the consumer is suspended.
    may_pull: asyncio.Event
    # Whether pull requests commit the offset.
    commits_with_pull: bool
    pull_interval_seconds: float

    def subscription_of(self, topic: str) -> SubscriptionData | None:
        """Return the subscription of a topic; None if it has been unsubscribed."""

    def on_messages(self, reader: "QueueReader", messages: list[Received]) -> None:
        """Called when new messages have been put into the ProcessQueue."""

    def on_offset_moved(self, reader: "QueueReader", offset: int) -> None:
        """Called when the pulled offset is out of range, with the offset to continue at. The reader has ended."""

    def on_unreadable(self, reader: "QueueReader", record: Record, error: CompressionError) -> None:
        """Called when a message was skipped because its body cannot be decompressed."""

    def on_not_registered(self) -> None:
        """Called when a broker does not know the group or its subscription."""


class QueueReader:
    """Pulls one queue until its ProcessQueue is dropped, or its offset turns out to be out of range."""

    __slots__ = (
        "_consumer",
        "_failure",
        "_topic",
        "broker_id",
        "is_paused",
        "last_pull_millis",
        "next_offset",
        "process_queue",
        "queue",
        "task",
    )

    def __init__(self, consumer: Consumer, queue: MessageQueue, offset: int) -> None:
        self._consumer = consumer
        self.queue = queue
        self.process_queue: ProcessQueue[Received] = ProcessQueue(consumer.options.clock.millis)
        self.next_offset = offset
        self.broker_id = MASTER_ID
        # For pull consumers, which then return no messages of this queue.
        self.is_paused = False
        self.last_pull_millis = consumer.options.clock.millis()
        # None for a retry topic: there the properties of each message contain its topic.
        self._topic = None if queue.topic.startswith(RETRY_PREFIX) else consumer.options.unwrap(queue.topic)
        self.task: asyncio.Task[None] | None = None
        self._failure: tuple[type[KeroloxError], int | None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self._run(), name=f"read {self.queue}")

    async def stop(self) -> None:
        """Stop pulling; the messages pulled before stay in the ProcessQueue."""
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self) -> None:
        consumer, process_queue = self._consumer, self.process_queue
        clock = consumer.options.clock
        while not process_queue.is_dropped:
            if not consumer.may_pull.is_set():
                await consumer.may_pull.wait()
            elif not consumer.thresholds.has_room(process_queue):
                await process_queue.wait_for_removal()
            elif (subscription := consumer.subscription_of(self.queue.topic)) is None:
                return
            else:
                try:
                    seconds = await self._pull(subscription)
                except Exception:
                    log.exception("pulling %s at offset %d failed", self.queue, self.next_offset)
                    seconds = AFTER_ERROR_SECONDS
                if seconds is None:
                    return
                if seconds:
                    await clock.sleep(seconds)

    async def _pull(self, subscription: SubscriptionData) -> float | None:
        """Pull once; return the delay before the next pull, None if there is no next one."""
        consumer, queue = self._consumer, self.queue
        commit_offset = consumer.offsets.get(queue) if consumer.commits_with_pull else None
        self.last_pull_millis = consumer.options.clock.millis()
        try:
            result = await consumer.puller.pull(
                queue, self.next_offset, subscription, broker_id=self.broker_id, commit_offset=commit_offset
            )
        except KeroloxError as error:
            return self._failed(error)
        self._failure = None
        if self.process_queue.is_dropped:
            return None
        self.broker_id = result.broker_id
        if result.is_offset_illegal:
            log.warning(
                "offset %d of %s is out of range, continuing at %d", self.next_offset, queue, result.next_offset
            )
            consumer.on_offset_moved(self, result.next_offset)
            return None
        self._put(result, subscription)
        return consumer.pull_interval_seconds

    def _failed(self, error: KeroloxError) -> float:
        """Return the delay before the next attempt. Repeated failures for the same reason are logged at DEBUG."""
        code = error.code if isinstance(error, AnswerError) else None
        if code == ResponseCode.FLOW_CONTROL:
            return AFTER_FLOW_CONTROL_SECONDS
        reason = (type(error), code)
        is_new, self._failure = reason != self._failure, reason
        log.log(logging.WARNING if is_new else logging.DEBUG, "pulling %s failed: %s", self.queue, error)
        if code is None:
            self.broker_id = MASTER_ID
        elif code in _NOT_REGISTERED:
            self._consumer.on_not_registered()
            return AFTER_HEARTBEAT_SECONDS if is_new else AFTER_ERROR_SECONDS
        return AFTER_ERROR_SECONDS

    def _put(self, result: PullResult, subscription: SubscriptionData) -> None:
        consumer, process_queue = self._consumer, self.process_queue
        self.next_offset = result.next_offset
        messages = self._received(TagFilter(subscription).filter(result.records)) if result.records else []
        new = process_queue.put(messages)
        process_queue.advance_to(result.next_offset)
        if new:
            consumer.on_messages(self, list(new))
        elif not process_queue.count:
            # All records were filtered out; no handler will commit past them.
            consumer.offsets.advance(self.queue, result.next_offset)

    def _received(self, records: list[Record]) -> list[Received]:
        queue, topic, unwrap = self.queue, self._topic, self._consumer.options.unwrap
        messages: list[Received] = []
        for record in records:
            try:
                messages.append(
                    received(record, queue, topic or unwrap(record.get(property_names.RETRY_TOPIC) or record.topic))
                )
            except CompressionError as error:
                self._consumer.on_unreadable(self, record, error)
        return messages
