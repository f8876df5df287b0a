"""The pull consumer, which the application asks for messages (DefaultLitePullConsumer)."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import ClassVar, Unpack

from kerolox.client.consumer.fetch.queue_reader import QueueReader
from kerolox.client.consumer.group import consume_from
from kerolox.client.consumer.group.member import GroupMember
from kerolox.client.consumer.group.subscriptions import ALL, Expression, build_subscription, expressions
from kerolox.client.consumer.settings import PullKeywords, PullSettings, split_keywords
from kerolox.client.errors import ClientError, WrongState
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.client.session.members import DirectResult
from kerolox.errors import SystemFailure
from kerolox.runtime.waiting import wait_with_timeout
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue


class PullConsumer(GroupMember):
    """Return messages on request, and pulls ahead in the background.

        async with PullConsumer("group", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
            async for message in consumer:
                ...

    With `topics`, it shares their queues with its group; without, it reads the queues given to `assign`. A message, or
    the messages of one `poll`, counts as consumed when the next is requested. Leaving the `async with` with an
    exception leaves the last of them unconsumed.
    """

    consume_type: ClassVar[str] = "CONSUME_ACTIVELY"
    suspend_seconds: ClassVar[float] = 20.0
    is_lite: ClassVar[bool] = True
    has_retries: ClassVar[bool] = False

    def __init__(
        self,
        group: str,
        *,
        topics: Mapping[str, Expression] | Iterable[str] | str = (),
        options: Options | None = None,
        **keywords: Unpack[PullKeywords],
    ) -> None:
        shared, self.settings = split_keywords(PullSettings, options, dict(keywords))
        super().__init__(group, expressions(topics), shared, self.settings)
        # This consumer commits itself, not with pull requests.
        self.commits_with_pull = False
        # Subscriptions of the topics of `assign`.
        self._assigned_subscriptions: dict[str, SubscriptionData] = {}
        self._has_messages = asyncio.Event()
        # The readers in round-robin order, the next one first.
        self._rotation: deque[QueueReader] = deque()
        # The readers of the messages that the last `poll` returned.
        self._polled_readers: list[QueueReader] = []
        # Taken by the iteration, but not returned yet.
        self._prefetched: deque[tuple[QueueReader, Received]] = deque()
        # The reader of the message that the iteration returned last.
        self._last_reader: QueueReader | None = None
        # The messages of the last `take_batch`.
        self._batch: list[tuple[QueueReader, Received]] = []

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._forget_returned()
        await super().__aexit__(kind, error, trace)

    # Queues

    async def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Subscribe to a topic, whose queues are shared with the group, or change the expression of a subscription."""
        if self._assigned_subscriptions:
            raise WrongState(f"the consumer of group {self.group!r} has assigned queues; it cannot subscribe too")
        await super().subscribe(topic, expression)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic; raise TopicNotFound if it does not exist."""
        self._lifecycle.check()
        return list((await self._session.routes.get(self.options.wrap(topic))).read_queues)

    async def assign(self, queues: Collection[MessageQueue], expression: Expression = ALL) -> None:
        """Read exactly these queues, each from the committed offset of the group; other members may read them too."""
        self._lifecycle.check()
        if self._subscriptions:
            raise WrongState(f"the consumer of group {self.group!r} has subscriptions; it cannot assign queues too")
        topics = {queue.topic for queue in queues}
        for topic in topics - self._assigned_subscriptions.keys():
            await self._session.routes.get(topic)
            self._session.routes.watch(topic)
        for topic in self._assigned_subscriptions.keys() - topics:
            self._session.routes.unwatch(topic)
        self._assigned_subscriptions = {
            topic: build_subscription(topic, expression, self.options.clock.millis()) for topic in topics
        }
        for topic in topics | {queue.topic for queue in self._readers}:
            if not await self._apply_assignment(topic, {queue for queue in queues if queue.topic == topic}):
                reason = self._start_error or "try again later"
                raise ClientError(
                    f"not all assigned queues of topic {topic!r} can be read now: {reason}"
                ) from self._start_error

    def subscription_of(self, topic: str) -> SubscriptionData | None:
        return self._assigned_subscriptions.get(topic) or super().subscription_of(topic)

    def _is_subscribed(self, queue: MessageQueue) -> bool:
        return queue.topic in self._assigned_subscriptions or super()._is_subscribed(queue)

    async def _leave(self) -> None:
        for topic in self._assigned_subscriptions:
            self._session.routes.unwatch(topic)
        await super()._leave()

    def pause(self, *queues: MessageQueue) -> None:
        """Return no messages of these queues, by default all, until `resume`."""
        for queue in queues or self.assigned:
            self._reader(queue).is_paused = True

    def resume(self, *queues: MessageQueue) -> None:
        for queue in queues or self.assigned:
            self._reader(queue).is_paused = False
        self._has_messages.set()

    # Offsets

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset; raise ClientError if the queue is not read here, or the offset is out of range."""
        self._reader(queue)
        low, high = await self.min_offset(queue), await self.max_offset(queue)
        if not low <= offset <= high:
            raise ClientError(f"offset {offset} of {queue} is out of range: it begins at {low} and ends at {high}")
        # A rebalance or another seek may replace the reader during an await; then the new reader must seek.
        while not await self._try_restart_at(self._reader(queue), offset):
            pass

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        await self.seek(queue, await self.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        await self.seek(queue, await self.max_offset(queue))

    async def min_offset(self, queue: MessageQueue) -> int:
        self._lifecycle.check()
        return await consume_from.min_offset(self._session, queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to be stored."""
        self._lifecycle.check()
        return await consume_from.max_offset(self._session, queue)

    async def offset_at(self, queue: MessageQueue, when: datetime) -> int:
        """Return the offset of the first message stored at this time or later."""
        self._lifecycle.check()
        return await consume_from.offset_at(self._session, queue, int(when.timestamp() * 1000))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of the group; None if there is none."""
        self._lifecycle.check()
        return await self.offsets.committed(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit these offsets, or by default all returned messages, and wait for the response of the brokers."""
        self._lifecycle.check()
        if offsets is None:
            self._commit_returned()
            await self.offsets.persist(list(self._readers), wait_for_response=True)
            return
        for queue, offset in offsets.items():
            self.offsets.set(queue, offset)
        await self.offsets.persist(list(offsets), wait_for_response=True)

    # Messages

    async def poll(self, count: int | None = None, *, timeout_seconds: float | None = None) -> list[Received]:
        """Wait for messages and return at most `count` of them; an empty list after the timeout.

        The messages returned before count as consumed.
        """
        self._lifecycle.check()
        self._commit_returned()
        self._return_prefetched()
        count = self.settings.max_poll_records if count is None else count
        seconds = self.settings.poll_timeout_seconds if timeout_seconds is None else timeout_seconds
        deadline = self.options.clock.monotonic() + seconds
        while True:
            messages = [message for reader, message in self._take_some(count)]
            left = deadline - self.options.clock.monotonic()
            if messages or left <= 0:
                return messages
            # Cleared only after nothing was found: another task may be about to wait for the remaining messages.
            self._has_messages.clear()
            await wait_with_timeout(self._has_messages, left, self.options.clock)
            self._lifecycle.check()

    def __aiter__(self) -> "PullConsumer":
        return self

    async def __anext__(self) -> Received:
        """Wait for the next message without a timeout; the iteration ends when the consumer is closed."""
        self._commit_returned()
        while True:
            while self._prefetched:
                reader, message = self._prefetched.popleft()
                if not reader.process_queue.is_dropped:
                    self._last_reader = reader
                    return message
            if self._lifecycle.is_closed:
                raise StopAsyncIteration
            self._lifecycle.check()
            self._prefetched.extend(self._take_some(self.settings.max_poll_records))
            self._polled_readers.clear()
            if not self._prefetched:
                self._has_messages.clear()
                await self._has_messages.wait()

    def _take_some(self, count: int) -> list[tuple[QueueReader, Received]]:
        """Take messages from the queues in round-robin order."""
        taken: list[tuple[QueueReader, Received]] = []
        for _ in range(len(self._rotation)):
            reader = self._rotation[0]
            self._rotation.rotate(-1)
            if not reader.is_paused and reader.process_queue.waiting_count:
                taken += [(reader, message) for message in reader.process_queue.take(count - len(taken))]
                self._polled_readers.append(reader)
                if len(taken) >= count:
                    break
        return taken

    def _return_prefetched(self) -> None:
        """Return the messages that the iteration has prefetched, so that `poll` can take them."""
        for reader in {reader for reader, _ in self._prefetched}:
            reader.process_queue.return_taken()
        self._prefetched.clear()

    # For blocking.iterator.ThreadIterator, which iterates in another thread

    async def take_batch(self) -> list[tuple[QueueReader, Received]]:
        """Take several messages at once; `commit_batch` commits them. Ends when the iteration ends."""
        first = await anext(self)
        assert self._last_reader is not None
        self._batch = [(self._last_reader, first), *self._prefetched]
        self._last_reader = None
        self._prefetched.clear()
        return self._batch

    def commit_batch(self, consumed: Iterable[QueueReader]) -> None:
        """Commit one message for each of these readers, in the order of the batch."""
        for reader in consumed:
            self._commit_taken(reader, 1)

    def return_batch(self, last_reader: QueueReader | None, rest: Iterable[tuple[QueueReader, Received]]) -> None:
        """Continue the iteration here: with the reader of the last returned message, and the rest of the batch."""
        self._last_reader = last_reader
        self._prefetched.extend(rest)
        self._batch = []

    def rewind(self) -> None:
        """Redeliver the messages taken last: the thread that waited for them was interrupted."""
        taken = [*self._batch, *self._prefetched]
        for reader in {*self._polled_readers, *(reader for reader, _ in taken), *filter(None, [self._last_reader])}:
            reader.process_queue.return_taken()
        self._batch = []
        self._prefetched.clear()
        self._forget_returned()

    def _commit_returned(self) -> None:
        """Commit the messages that were returned to the caller."""
        if self._last_reader is not None:
            self._commit_taken(self._last_reader, 1)
            self._last_reader = None
        for reader in self._polled_readers:
            self._commit_taken(reader, None)
        self._polled_readers.clear()

    def _commit_taken(self, reader: QueueReader, count: int | None) -> None:
        process_queue = reader.process_queue
        offset = process_queue.commit(count)
        if offset is not None and not process_queue.is_dropped:
            self.offsets.advance(reader.queue, offset)

    def _forget_returned(self) -> None:
        self._last_reader = None
        self._polled_readers.clear()

    # For GroupMember

    def _reader(self, queue: MessageQueue) -> QueueReader:
        self._lifecycle.check()
        reader = self._readers.get(queue)
        if reader is None:
            raise ClientError(f"{queue} is not assigned to this consumer of group {self.group!r}")
        return reader

    def on_messages(self, reader: QueueReader, messages: list[Received]) -> None:
        counts = self.statistics.of(reader.queue.topic)
        counts.pulls += 1
        counts.pulled += len(messages)
        self._has_messages.set()

    def _queue_added(self, reader: QueueReader) -> None:
        self._rotation = deque(other for other in self._rotation if other.queue != reader.queue)
        self._rotation.append(reader)

    async def _queue_removed(self, reader: QueueReader) -> None:
        if reader in self._rotation:
            self._rotation.remove(reader)

    async def _restart_at(self, reader: QueueReader, offset: int) -> None:
        """Restart without committing the offset: this consumer commits it later, or not at all."""
        await self._try_restart_at(reader, offset)

    async def _try_restart_at(self, reader: QueueReader, offset: int) -> bool:
        """Replace the reader by one that begins at `offset`; return False if it is not the current reader any more."""
        reader.process_queue.drop()
        await reader.stop()
        if self._lifecycle.is_closed or self._readers.get(reader.queue) is not reader:
            return False
        self.offsets.set(reader.queue, offset)
        self._start_reader(reader.queue, offset)
        self._readers[reader.queue].is_paused = reader.is_paused
        return True

    async def _persist(
        self, queues: Collection[MessageQueue] | None = None, *, wait_for_response: bool = False
    ) -> None:
        if self.settings.auto_commit:
            await super()._persist(queues, wait_for_response=wait_for_response)

    async def _drain(self) -> None:
        self._commit_returned()
        self._has_messages.set()

    async def consume_directly(self, message: Received) -> DirectResult:
        raise SystemFailure(f"the consumer of group {self.group!r} has no handler to call")
