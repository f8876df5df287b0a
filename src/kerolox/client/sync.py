"""Producers and consumers that block, for code without an event loop, with the same names as in `kerolox.client`.

with Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
    producer.send(Message("orders", b"..."))

with PullConsumer("billing", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
    for message in consumer:
        ...

They are those of `kerolox.client`, on an event loop in a thread of its own. Any number of threads may use one.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from typing import Any, Self, TypeVar, Unpack, cast

from kerolox import client as aio
from kerolox.client import (
    BeforeConsumeHook,
    ClientError,
    CompressionType,
    Consumed,
    ConsumeFrom,
    ConsumeHook,
    Consuming,
    Decision,
    GroupTaken,
    KeroloxError,
    Message,
    MessageIllegal,
    MessageModel,
    MessageQueue,
    MessageType,
    NoPermission,
    NoRoute,
    Options,
    Received,
    RequestTimeout,
    SendFailed,
    SendHook,
    Sending,
    SendResult,
    SendStatus,
    Sql92,
    Strategy,
    TopicNotFound,
    Tracing,
    TransactionResult,
    WrongState,
    strategies,
)
from kerolox.client.blocking import Blocking, Client, blocks, manages, runs
from kerolox.client.callbacks import Callback
from kerolox.client.consumer.hand import Hand
from kerolox.client.consumer.handling import Handler
from kerolox.client.consumer.member import GroupMember
from kerolox.client.consumer.settings import PullKeywords, PullSettings, PushKeywords, PushSettings
from kerolox.client.consumer.statistics import ConsumeStatistics
from kerolox.client.consumer.subscriptions import Expression
from kerolox.client.loop_thread import LoopThread
from kerolox.client.options import Shared
from kerolox.client.producer.settings import ProducerKeywords, ProducerSettings

__all__ = [
    "BeforeConsumeHook",
    "ClientError",
    "CompressionType",
    "ConsumeFrom",
    "ConsumeHook",
    "Consumed",
    "Consuming",
    "Decision",
    "GroupTaken",
    "KeroloxError",
    "Message",
    "MessageIllegal",
    "MessageModel",
    "MessageQueue",
    "MessageType",
    "NoPermission",
    "NoRoute",
    "Options",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Received",
    "RequestTimeout",
    "SendFailed",
    "SendHook",
    "SendResult",
    "SendStatus",
    "Sending",
    "SimpleConsumer",
    "Sql92",
    "Strategy",
    "TopicNotFound",
    "Tracing",
    "TransactionProducer",
    "TransactionResult",
    "WrongState",
    "strategies",
]


class Producer(Client[aio.Producer]):
    """Sends messages on behalf of a group.

        with Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
            producer.send(Message("orders", b"..."))

    Threads that send at once share one connection to each broker.
    """

    def __init__(self, group: str, *, options: Options | None = None, **keywords: Unpack[ProducerKeywords]) -> None:
        super().__init__(aio.Producer(group, options=options, **keywords))

    @property
    def group(self) -> str:
        return self._inner.group

    @property
    def options(self) -> Options:
        return self._inner.options

    @property
    def settings(self) -> ProducerSettings:
        return self._inner.settings

    start = blocks(aio.Producer.start)
    close = blocks(aio.Producer.close)
    send = blocks(aio.Producer.send)
    send_oneway = blocks(aio.Producer.send_oneway)
    request = blocks(aio.Producer.request)
    reply = blocks(aio.Producer.reply)
    recall = blocks(aio.Producer.recall)
    queues = blocks(aio.Producer.queues)


class TransactionProducer(Producer):
    """A producer whose messages are sent in transactions.

    `check` is asked by brokers what became of a message whose decision they never got, perhaps in another process
    than the one that sent it: it is given the message, and finds out, in a thread of its own.
    """

    def __init__(
        self,
        group: str,
        check: Callback[Received, Decision],
        *,
        options: Options | None = None,
        **keywords: Unpack[ProducerKeywords],
    ) -> None:
        Blocking.__init__(self, aio.TransactionProducer(group, check, options=options, **keywords))

    start = blocks(aio.TransactionProducer.start)

    def send_in_transaction(
        self, message: Message, execute: Callback[Message, Decision], *, timeout_seconds: float | None = None
    ) -> TransactionResult:
        """Sends the message so that nobody sees it, runs `execute`, and commits or rolls back as that decides.

        A plain function is run here, in the calling thread, where its database connection is. What it raises leaves
        the decision to `check`. SendFailed if the message could not be sent, and then nothing was run.
        """
        loop_thread = self._loop_thread()
        inner = cast("aio.TransactionProducer", self._inner)
        asked: Future[None] = Future()
        decided: Future[Decision | Awaitable[Decision]] = Future()

        async def ask_here(message: Message) -> Decision:
            asked.set_result(None)
            decision = await asyncio.wrap_future(decided)
            return await decision if inspect.isawaitable(decision) else decision

        sending = loop_thread.submit(inner.send_in_transaction(message, ask_here, timeout_seconds=timeout_seconds))
        try:
            either: list[Future[Any]] = [sending, asked]
            wait(either, return_when=FIRST_COMPLETED)
            if asked.done():
                _settle(decided, execute, message)
        except BaseException:
            sending.cancel()
            raise
        return loop_thread.result(sending)


def _settle(
    decided: "Future[Decision | Awaitable[Decision]]", execute: Callback[Message, Decision], message: Message
) -> None:
    """Notes what the function returned, or raised, unless nobody waits for that any more."""
    try:
        decision = execute(message)
    except Exception as error:
        with contextlib.suppress(InvalidStateError):
            decided.set_exception(error)
    else:
        with contextlib.suppress(InvalidStateError):
            decided.set_result(decision)


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
