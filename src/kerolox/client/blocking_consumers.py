"""Consumers that block."""

from collections.abc import Iterable, Mapping
from typing import Self, TypeVar, Unpack

from kerolox import client as aio
from kerolox.client import (
    ConsumeFrom,
    MessageQueue,
    Options,
    Received,
)
from kerolox.client.blocking import Client, blocks, manages, runs
from kerolox.client.consumer.hand import Hand
from kerolox.client.consumer.handling import Handler
from kerolox.client.consumer.member import GroupMember
from kerolox.client.consumer.settings import PullKeywords, PullSettings, PushKeywords, PushSettings
from kerolox.client.consumer.statistics import ConsumeStatistics
from kerolox.client.consumer.subscriptions import Expression
from kerolox.client.loop_thread import LoopThread
from kerolox.client.options import Shared

G = TypeVar("G", bound=GroupMember)


class _Member(Client[G]):
    """What push and pull consumers have in common."""

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
        """The queues that this member reads now, the group's retries among them."""
        return self._run(lambda: self._inner.assigned)

    start = blocks(GroupMember.start)
    close = blocks(GroupMember.close)
    closed = blocks(GroupMember.closed)
    subscribe = blocks(GroupMember.subscribe)
    unsubscribe = blocks(GroupMember.unsubscribe)


class PushConsumer(_Member[aio.PushConsumer]):
    """Hands messages to `handler`, a function that is called in threads, as many at once as it can take.

        with PushConsumer("group", handle, topics={"orders": "*"}, namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.closed()

    `handle(messages)` gets a list, of one message unless more are allowed. It returns None, or Consumed; what it
    raises has its messages come again later, and after 16 times they are dead letters. It may use other clients.
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
    """Gives messages to whoever asks, while it reads ahead.

        with PullConsumer("group", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
            for message in consumer:
                ...

    With topics it shares their queues with its group; without, it reads the queues that it is told to (`assign`).
    A message counts as consumed once the next is asked for, and so do those of one `poll`. Leaving the `with` with
    an exception leaves the last of them unconsumed.
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
        self._hand = Hand(self._inner)

    def _loop_thread(self) -> LoopThread:
        loop_thread = super()._loop_thread()
        self._hand.put_back(loop_thread)
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
        """Returns what there is, at most `count` messages; waits for the first of them, and gives none if it is late.

        What was handed out before counts as consumed.
        """
        # What was under way to somebody who was interrupted has reached nobody, and comes again.
        return self._loop_thread().wait(
            self._inner.poll(count, timeout_seconds=timeout_seconds), on_interrupt=self._inner.take_back
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received:
        """Waits as long as it takes; ends when the consumer is closed."""
        try:
            return self._hand.next(super()._loop_thread())
        except StopAsyncIteration:
            raise StopIteration from None


class SimpleConsumer(Client[aio.SimpleConsumer]):
    """Takes messages, which nobody else of the group gets for a time, and acknowledges them.

        with SimpleConsumer("group", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
            for message in consumer.receive(32, invisible_seconds=30):
                ...
                consumer.ack(message)

    What is not acknowledged in time comes again, to whoever asks. No queues are shared out, so that any number of
    members may take part. With `is_ordered` a queue gives nothing more until all that it gave was acknowledged, or
    comes again. Needs brokers of 5.x.
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
