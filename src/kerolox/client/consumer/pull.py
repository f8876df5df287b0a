"""The pull consumer: messages are asked for, one after the other or some at a time."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import ClassVar, Unpack

from kerolox.client.consumer import positions
from kerolox.client.consumer.member import GroupMember
from kerolox.client.consumer.reading import Reader
from kerolox.client.consumer.settings import PullKeywords, PullSettings, parted
from kerolox.client.consumer.subscriptions import ALL, Expression, expressions, subscription
from kerolox.client.errors import ClientError, WrongState
from kerolox.client.members import DirectResult
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.client.waiting import event_or_late
from kerolox.errors import SystemFailure
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue


class PullConsumer(GroupMember):
    """Gives messages to whoever asks, while it reads ahead.

        async with PullConsumer("group", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
            async for message in consumer:
                ...

    With topics it shares their queues with its group; without, it reads the queues that it is told to (`assign`).
    A message counts as consumed once the next is asked for, and so do those of one `poll`. Leaving the `async with`
    with an exception leaves the last of them unconsumed.
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
        shared, self.settings = parted(PullSettings, options, dict(keywords))
        super().__init__(group, expressions(topics), shared, self.settings)
        # Committing is this consumer's own business, and not that of pulls.
        self.is_committing = False
        self._chosen: dict[str, SubscriptionData] = {}
        self._filled = asyncio.Event()
        # Those whose turn it is come first.
        self._turns: deque[Reader] = deque()
        # What `poll` has handed out, and what the iteration has before it hands it out.
        self._polled: list[Reader] = []
        self._ahead: deque[tuple[Reader, Received]] = deque()
        self._given: Reader | None = None
        self._lent: list[tuple[Reader, Received]] = []

    async def __aexit__(self, *error: object) -> None:
        if error[0] is not None:
            self._forget_given()
        await self.close()

    # Which queues

    async def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Shares the queues of a topic with the group from now on, or wants other messages of it."""
        if self._chosen:
            raise WrongState(f"the consumer of group {self.group!r} reads queues it was told to; it cannot share, too")
        await super().subscribe(topic, expression)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues of a topic; TopicNotFound if there is none."""
        self._lifecycle.check()
        return list((await self._session.routes.get(self.options.wrap(topic))).read_queues)

    async def assign(self, queues: Collection[MessageQueue], expression: Expression = ALL) -> None:
        """Reads these queues and no others, whoever else does; each from where the group was."""
        self._lifecycle.check()
        if self._subscriptions:
            raise WrongState(f"the consumer of group {self.group!r} shares topics with its group; it cannot be told")
        topics = {queue.topic for queue in queues}
        for topic in topics - self._chosen.keys():
            await self._session.routes.get(topic)
            self._session.routes.watch(topic)
        for topic in self._chosen.keys() - topics:
            self._session.routes.unwatch(topic)
        self._chosen = {topic: subscription(topic, expression, self.options.clock.millis()) for topic in topics}
        for topic in topics | {queue.topic for queue in self._readers}:
            if not await self._apply(topic, {queue for queue in queues if queue.topic == topic}):
                reason = self._untaken or "another try may do"
                raise ClientError(
                    f"not all of the queues of topic {topic!r} can be read now: {reason}"
                ) from self._untaken

    def wanted(self, topic: str) -> SubscriptionData | None:
        return self._chosen.get(topic) or super().wanted(topic)

    def _is_wanted(self, queue: MessageQueue) -> bool:
        return queue.topic in self._chosen or super()._is_wanted(queue)

    async def _leave(self) -> None:
        for topic in self._chosen:
            self._session.routes.unwatch(topic)
        await super()._leave()

    def pause(self, *queues: MessageQueue) -> None:
        """Gives no messages of these queues, or of any, until `resume`."""
        for queue in queues or self.assigned:
            self._reader(queue).is_paused = True

    def resume(self, *queues: MessageQueue) -> None:
        for queue in queues or self.assigned:
            self._reader(queue).is_paused = False
        self._filled.set()

    # Where in them

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Goes on at an offset; ClientError if the queue is not read here, or has no such offset."""
        self._reader(queue)
        low, high = await self.min_offset(queue), await self.max_offset(queue)
        if not low <= offset <= high:
            raise ClientError(f"{queue} has no offset {offset}: it begins at {low} and ends at {high}")
        # Meanwhile the queue may have been moved, or lost and taken again: then it is the new reader that has to move.
        while not await self._moved(self._reader(queue), offset):
            pass

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        await self.seek(queue, await self.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        await self.seek(queue, await self.max_offset(queue))

    async def min_offset(self, queue: MessageQueue) -> int:
        self._lifecycle.check()
        return await positions.min_offset(self._session, queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Returns the offset that the next message will have."""
        self._lifecycle.check()
        return await positions.max_offset(self._session, queue)

    async def offset_at(self, queue: MessageQueue, when: datetime) -> int:
        """Returns the offset of the first message that was stored then, or later."""
        self._lifecycle.check()
        return await positions.offset_at(self._session, queue, int(when.timestamp() * 1000))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Returns where the group would go on; None if it never was there."""
        self._lifecycle.check()
        return await self.offsets.stored(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Has the group go on after all that was handed out, or at these offsets; returns when brokers know it."""
        self._lifecycle.check()
        if offsets is None:
            self._consumed()
            await self.offsets.persist(list(self._readers), is_last=True)
            return
        for queue, offset in offsets.items():
            self.offsets.set(queue, offset)
        await self.offsets.persist(list(offsets), is_last=True)

    # Messages

    async def poll(self, count: int | None = None, *, timeout_seconds: float | None = None) -> list[Received]:
        """Returns what there is, at most `count` messages; waits for the first of them, and gives none if it is late.

        What was handed out before counts as consumed.
        """
        self._lifecycle.check()
        self._consumed()
        self._give_back_ahead()
        count = self.settings.max_poll_records if count is None else count
        seconds = self.settings.poll_timeout_seconds if timeout_seconds is None else timeout_seconds
        deadline = self.options.clock.monotonic() + seconds
        while True:
            messages = [message for reader, message in self._take_some(count)]
            left = deadline - self.options.clock.monotonic()
            if messages or left <= 0:
                return messages
            # Only who found nothing may say so: another may be about to wait for what is left.
            self._filled.clear()
            await event_or_late(self._filled, left, self.options.clock)
            self._lifecycle.check()

    def __aiter__(self) -> "PullConsumer":
        return self

    async def __anext__(self) -> Received:
        """Waits as long as it takes; ends when the consumer is closed."""
        self._consumed()
        while True:
            while self._ahead:
                reader, message = self._ahead.popleft()
                if not reader.window.is_dropped:
                    self._given = reader
                    return message
            if self._lifecycle.is_closed:
                raise StopAsyncIteration
            self._lifecycle.check()
            self._ahead.extend(self._take_some(self.settings.max_poll_records))
            self._polled.clear()
            if not self._ahead:
                self._filled.clear()
                await self._filled.wait()

    def _take_some(self, count: int) -> list[tuple[Reader, Received]]:
        """Takes from one queue after the other, beginning with another each time."""
        taken: list[tuple[Reader, Received]] = []
        for _ in range(len(self._turns)):
            reader = self._turns[0]
            self._turns.rotate(-1)
            if not reader.is_paused and reader.window.waiting_count:
                taken += [(reader, message) for message in reader.window.take(count - len(taken))]
                self._polled.append(reader)
                if len(taken) >= count:
                    break
        return taken

    def _give_back_ahead(self) -> None:
        """What an iteration took and did not come to may be polled."""
        for reader in {reader for reader, _ in self._ahead}:
            reader.window.give_back()
        self._ahead.clear()

    # For an iteration in another thread

    async def lend(self) -> list[tuple[Reader, Received]]:
        """Hands out several at once; `settle` is told of those that are done. Ends as the iteration does."""
        first = await anext(self)
        assert self._given is not None
        self._lent = [(self._given, first), *self._ahead]
        self._given = None
        self._ahead.clear()
        return self._lent

    def settle(self, done: Iterable[Reader]) -> None:
        """Lets go of one message for each of these, in the order in which they were lent."""
        for reader in done:
            self._commit_taken(reader, 1)

    def put_back(self, given: Reader | None, left: Iterable[tuple[Reader, Received]]) -> None:
        """Goes on here with what was lent: the last that was handed out, and those that were not."""
        self._given = given
        self._ahead.extend(left)
        self._lent = []

    def take_back(self) -> None:
        """Has what was handed out last come again: it has reached nobody."""
        out = [*self._lent, *self._ahead]
        for reader in {*self._polled, *(reader for reader, _ in out), *filter(None, [self._given])}:
            reader.window.give_back()
        self._lent = []
        self._ahead.clear()
        self._forget_given()

    def _consumed(self) -> None:
        """What was handed out is done."""
        if self._given is not None:
            self._commit_taken(self._given, 1)
            self._given = None
        for reader in self._polled:
            self._commit_taken(reader, None)
        self._polled.clear()

    def _commit_taken(self, reader: Reader, count: int | None) -> None:
        window = reader.window
        offset = window.commit(count)
        if offset is not None and not window.is_dropped:
            self.offsets.advance(reader.queue, offset)

    def _forget_given(self) -> None:
        self._given = None
        self._polled.clear()

    # For GroupMember

    def _reader(self, queue: MessageQueue) -> Reader:
        self._lifecycle.check()
        reader = self._readers.get(queue)
        if reader is None:
            raise ClientError(f"{queue} is not read by this consumer of group {self.group!r}")
        return reader

    def delivered(self, reader: Reader, messages: list[Received]) -> None:
        counts = self.statistics.of(reader.queue.topic)
        counts.pulls += 1
        counts.pulled += len(messages)
        self._filled.set()

    def _taken(self, reader: Reader) -> None:
        self._turns = deque(other for other in self._turns if other.queue != reader.queue)
        self._turns.append(reader)

    async def _lost(self, reader: Reader) -> None:
        if reader in self._turns:
            self._turns.remove(reader)

    async def _move(self, reader: Reader, offset: int) -> None:
        """Whether and when the group is told is another matter."""
        await self._moved(reader, offset)

    async def _moved(self, reader: Reader, offset: int) -> bool:
        """Says whether it has; not if another reads the queue by now, or nobody."""
        reader.window.drop()
        await reader.stop()
        if self._lifecycle.is_closed or self._readers.get(reader.queue) is not reader:
            return False
        self.offsets.set(reader.queue, offset)
        self._begin(reader.queue, offset)
        self._readers[reader.queue].is_paused = reader.is_paused
        return True

    async def _persist(self, queues: Collection[MessageQueue] | None = None, *, is_last: bool = False) -> None:
        if self.settings.auto_commit:
            await super()._persist(queues, is_last=is_last)

    async def _finish(self) -> None:
        self._consumed()
        self._filled.set()

    async def consume_directly(self, message: Received) -> DirectResult:
        raise SystemFailure(f"the consumer of group {self.group!r} has no handler that could be called")
