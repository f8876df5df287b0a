"""Reading a queue ahead of its consumer: pull after pull into its window, as long as there is room."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, Protocol

from kerolox.client.consumer.offsets import Offsets
from kerolox.client.consumer.pulling import Found, Puller
from kerolox.client.consumer.subscriptions import TagFilter
from kerolox.client.consumer.window import Window
from kerolox.client.messages import Received, received
from kerolox.client.names import RETRY_PREFIX
from kerolox.client.options import Options
from kerolox.client.routes import MASTER_ID
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError
from kerolox.message import names
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

AFTER_ERROR_SECONDS: Final = 1.0
AFTER_FLOW_CONTROL_SECONDS: Final = 0.02
AFTER_INTRODUCTION_SECONDS: Final = 0.1
# The broker does not know, or not yet, what we said in our last heartbeat.
_UNINTRODUCED = frozenset(
    {
        ResponseCode.SUBSCRIPTION_NOT_EXIST.value,
        ResponseCode.SUBSCRIPTION_NOT_LATEST.value,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST.value,
    }
)


@dataclass(slots=True)
class Room:
    """How much may be in hand of one queue before no more is pulled."""

    count_max: int = 1000
    size_max: int = 100 * 1024 * 1024
    # How far the last may be from the first; None where they are done in order.
    span_max: int | None = 2000

    def is_left(self, window: Window[Received]) -> bool:
        return (
            window.count <= self.count_max
            and window.size <= self.size_max
            and (self.span_max is None or window.span <= self.span_max)
        )


class Consumer(Protocol):
    """For whom is read."""

    options: Options
    offsets: Offsets
    puller: Puller
    room: Room
    # Cleared while nothing shall be read.
    is_open: asyncio.Event
    # Whether pulls tell the broker how far the group has come.
    is_committing: bool
    pull_interval_seconds: float

    def wanted(self, topic: str) -> SubscriptionData | None:
        """Returns what it wants of a topic."""

    def delivered(self, reader: "Reader", messages: list[Received]) -> None:
        """There are new messages in the window."""

    def moved(self, reader: "Reader", offset: int) -> None:
        """The queue has no such offset as was asked for, and goes on at this one. The reader has ended."""

    def unreadable(self, reader: "Reader", record: Record, error: CompressionError) -> None:
        """A message whose body cannot be restored was passed over."""

    def unknown_here(self) -> None:
        """A broker does not know the group, or what it wants."""


class Reader:
    """Reads one queue. It ends when its window is dropped, or the queue turns out to have moved."""

    __slots__ = (
        "_consumer",
        "_failure",
        "_topic",
        "broker_id",
        "is_paused",
        "last_consume_millis",
        "last_pull_millis",
        "next_offset",
        "queue",
        "task",
        "window",
    )

    def __init__(self, consumer: Consumer, queue: MessageQueue, offset: int) -> None:
        self._consumer = consumer
        self.queue = queue
        self.window: Window[Received] = Window()
        self.next_offset = offset
        self.broker_id = MASTER_ID
        # What is in hand stays there; for consumers that are asked.
        self.is_paused = False
        self.last_pull_millis = self.last_consume_millis = consumer.options.clock.millis()
        # Of a message that comes again, its properties say to which topic it was sent.
        self._topic = None if queue.topic.startswith(RETRY_PREFIX) else consumer.options.unwrap(queue.topic)
        self.task: asyncio.Task[None] | None = None
        self._failure: tuple[type[KeroloxError], int | None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self._run(), name=f"read {self.queue}")

    async def stop(self) -> None:
        """Ends reading; what is in hand stays."""
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self) -> None:
        consumer, window = self._consumer, self.window
        clock = consumer.options.clock
        while not window.is_dropped:
            if not consumer.is_open.is_set():
                await consumer.is_open.wait()
            elif not consumer.room.is_left(window):
                await window.shrink()
            elif (wanted := consumer.wanted(self.queue.topic)) is None:
                return
            else:
                try:
                    seconds = await self._read(wanted)
                except Exception:
                    log.exception("reading %s at offset %d failed", self.queue, self.next_offset)
                    seconds = AFTER_ERROR_SECONDS
                if seconds is None:
                    return
                if seconds:
                    await clock.sleep(seconds)

    async def _read(self, wanted: SubscriptionData) -> float | None:
        """Pulls once; returns after which time to pull again, None if never."""
        consumer, queue = self._consumer, self.queue
        commit_offset = consumer.offsets.get(queue) if consumer.is_committing else None
        self.last_pull_millis = consumer.options.clock.millis()
        try:
            found = await consumer.puller.pull(
                queue, self.next_offset, wanted, broker_id=self.broker_id, commit_offset=commit_offset
            )
        except KeroloxError as error:
            return self._failed(error)
        self._failure = None
        if self.window.is_dropped:
            return None
        self.broker_id = found.broker_id
        if found.is_moved:
            log.warning("%s has no offset %d, and goes on at %d", queue, self.next_offset, found.next_offset)
            consumer.moved(self, found.next_offset)
            return None
        self._take(found, wanted)
        return consumer.pull_interval_seconds

    def _failed(self, error: KeroloxError) -> float:
        """Returns when to try again. What fails for the same reason as before is not said again."""
        code = error.code if isinstance(error, AnswerError) else None
        if code == ResponseCode.FLOW_CONTROL:
            return AFTER_FLOW_CONTROL_SECONDS
        reason = (type(error), code)
        is_new, self._failure = reason != self._failure, reason
        log.log(logging.WARNING if is_new else logging.DEBUG, "%s cannot be read: %s", self.queue, error)
        if code is None:
            self.broker_id = MASTER_ID
        elif code in _UNINTRODUCED:
            self._consumer.unknown_here()
            return AFTER_INTRODUCTION_SECONDS if is_new else AFTER_ERROR_SECONDS
        return AFTER_ERROR_SECONDS

    def _take(self, found: Found, wanted: SubscriptionData) -> None:
        consumer, window = self._consumer, self.window
        self.next_offset = found.next_offset
        messages = self._received(TagFilter(wanted).of(found.records)) if found.records else []
        new = window.put(messages)
        window.pass_to(found.next_offset)
        if new:
            consumer.delivered(self, list(new))
        elif not window.count:
            # Nothing of this was for us, and the group has come past it all the same.
            consumer.offsets.advance(self.queue, found.next_offset)

    def _received(self, records: list[Record]) -> list[Received]:
        queue, topic, unwrap = self.queue, self._topic, self._consumer.options.unwrap
        messages: list[Received] = []
        for record in records:
            try:
                messages.append(received(record, queue, topic or unwrap(record.get(names.RETRY_TOPIC) or record.topic)))
            except CompressionError as error:
                self._consumer.unreadable(self, record, error)
        return messages
