"""Blocking consumers."""

from collections.abc import Iterable, Mapping
from typing import Self, TypeVar, Unpack

from kerolox import client as aio
from kerolox.client import (
    ConsumeFrom,
    MessageQueue,
    Options,
    Received,
)
from kerolox.client.blocking.facade import Client, blocks, manages, runs
from kerolox.client.blocking.iterator import ThreadIterator
from kerolox.client.blocking.loop_thread import LoopThread
from kerolox.client.consumer.group.member import GroupMember
from kerolox.client.consumer.group.subscriptions import Expression
from kerolox.client.consumer.handle.invoke import Handler
from kerolox.client.consumer.settings import PullKeywords, PullSettings, PushKeywords, PushSettings
from kerolox.client.consumer.statistics import ConsumeStatistics
from kerolox.client.options import Shared

G = TypeVar("G", bound=GroupMember)


class _Member(Client[G]):
    """The base class of push and pull consumers."""

    @property
    def group(self) -> str:
        return self._inner.group

    @property
    def options(self) -> Options:
        return self._inner.options

    @property
    def statistics(self) -> ConsumeStatistics:
        return self._inner.statistics

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this member reads, including those of the group's retry topic."""
        return self._run(lambda: self._inner.assigned)

    start = blocks(GroupMember.start)
    close = blocks(GroupMember.close)
    closed = blocks(GroupMember.closed)
    subscribe = blocks(GroupMember.subscribe)
    unsubscribe = blocks(GroupMember.unsubscribe)


class PushConsumer(_Member[aio.PushConsumer]):
    """Calls `handler`, a plain function, with messages in several threads.

        with PushConsumer("group", handle, topics={"orders": "*"}, namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.closed()

    `handle(messages)` gets a list, by default of one message, and returns None or Consumed. If it raises, the messages
    are retried later; after 16 retries they become dead letters. The handler may use other clients.
    """

    def __init__(
        self,
        group: str,
        handler: Handler,
        *,
        topics: Mapping[str, Expression] | Iterable[str] | str,
        options: Options | None = None,
        **keywords: Unpack[PushKeywords],
    ) -> None:
        super().__init__(aio.PushConsumer(group, handler, topics=topics, options=options, **keywords))

    @property
    def settings(self) -> PushSettings:
        return self._inner.settings

    suspend = runs(aio.PushConsumer.suspend)
    resume = runs(aio.PushConsumer.resume)


class PullConsumer(_Member[aio.PullConsumer]):
    """Return messages on request, and pulls ahead in the background.

        with PullConsumer("group", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
            for message in consumer:
                ...

    With `topics`, it shares their queues with its group; without, it reads the queues given to `assign`. A message, or
    the messages of one `poll`, counts as consumed when the next is requested. Leaving the `with` with an exception
    leaves the last of them unconsumed.
    """

    def __init__(
        self,
        group: str,
        *,
        topics: Mapping[str, Expression] | Iterable[str] | str = (),
        options: Options | None = None,
        **keywords: Unpack[PullKeywords],
    ) -> None:
        super().__init__(aio.PullConsumer(group, topics=topics, options=options, **keywords))
        self._iterator = ThreadIterator(self._inner)

    def _loop_thread(self) -> LoopThread:
        # All methods but __next__ call this first, so that they see the messages that the iterator holds.
        loop_thread = super()._loop_thread()
        self._iterator.return_batch(loop_thread)
        return loop_thread

    @property
    def settings(self) -> PullSettings:
        return self._inner.settings

    subscribe = blocks(aio.PullConsumer.subscribe)
    queues = blocks(aio.PullConsumer.queues)
    assign = blocks(aio.PullConsumer.assign)
    pause = runs(aio.PullConsumer.pause)
    resume = runs(aio.PullConsumer.resume)
    seek = blocks(aio.PullConsumer.seek)
    seek_to_begin = blocks(aio.PullConsumer.seek_to_begin)
    seek_to_end = blocks(aio.PullConsumer.seek_to_end)
    min_offset = blocks(aio.PullConsumer.min_offset)
    max_offset = blocks(aio.PullConsumer.max_offset)
    offset_at = blocks(aio.PullConsumer.offset_at)
    committed = blocks(aio.PullConsumer.committed)
    commit = blocks(aio.PullConsumer.commit)

    def poll(self, count: int | None = None, *, timeout_seconds: float | None = None) -> list[Received]:
        """Wait for messages and return at most `count` of them; an empty list after the timeout.

        The messages returned before count as consumed.
        """
        # If this thread is interrupted, the messages on their way to it are redelivered.
        return self._loop_thread().wait(
            self._inner.poll(count, timeout_seconds=timeout_seconds), on_interrupt=self._inner.rewind
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received:
        """Wait for the next message without a timeout; the iteration ends when the consumer is closed."""
        try:
            return self._iterator.next(super()._loop_thread())
        except StopAsyncIteration:
            raise StopIteration from None


class SimpleConsumer(Client[aio.SimpleConsumer]):
    """Receives messages, which are invisible to the rest of the group for some time, and acknowledges them.

        with SimpleConsumer("group", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
            for message in consumer.receive(32, invisible_seconds=30):
                ...
                consumer.ack(message)

    A message that is not acknowledged in time is redelivered to any member. Queues are not assigned to members, so a
    group may have any number of them. With `is_ordered`, a queue delivers no more messages until all earlier ones
    have been acknowledged or have become visible again. Needs 5.x brokers.
    """

    def __init__(
        self,
        group: str,
        *,
        topics: Mapping[str, Expression] | Iterable[str] | str,
        consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
        is_ordered: bool = False,
        options: Options | None = None,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(
            aio.SimpleConsumer(
                group, topics=topics, consume_from=consume_from, is_ordered=is_ordered, options=options, **shared
            )
        )

    @property
    def group(self) -> str:
        return self._inner.group

    @property
    def options(self) -> Options:
        return self._inner.options

    start = blocks(aio.SimpleConsumer.start)
    close = blocks(aio.SimpleConsumer.close)
    subscribe = blocks(aio.SimpleConsumer.subscribe)
    unsubscribe = blocks(aio.SimpleConsumer.unsubscribe)
    receive = blocks(aio.SimpleConsumer.receive)
    ack = blocks(aio.SimpleConsumer.ack)
    change_invisible = blocks(aio.SimpleConsumer.change_invisible)
    renewing = manages(aio.SimpleConsumer.renewing)
