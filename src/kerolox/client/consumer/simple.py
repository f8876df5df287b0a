"""The simple consumer: takes messages for a time, and says of each when it is done; brokers keep the books (POP)."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, Final, Self, Unpack

from kerolox.client import names
from kerolox.client.consumer.acknowledging import Acknowledging
from kerolox.client.consumer.popping import BATCH_SIZE_MAX, Popping, Target
from kerolox.client.consumer.positions import ConsumeFrom
from kerolox.client.consumer.receipts import Receipt
from kerolox.client.consumer.subscriptions import ALL, Expression, expressions, subscription
from kerolox.client.errors import NoRoute
from kerolox.client.lifecycle import Lifecycle
from kerolox.client.members import DirectResult
from kerolox.client.messages import Received
from kerolox.client.options import Options, Shared, options_of
from kerolox.client.session import Session
from kerolox.errors import ConfigurationError, KeroloxError, SystemFailure
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo

log = logging.getLogger(__name__)

_AFTER_NOTHING_SECONDS: Final = 1.0


class SimpleConsumer:
    """Takes messages, which nobody else of the group gets for a time, and acknowledges them.

        async with SimpleConsumer("group", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
            for message in await consumer.receive(32, invisible_seconds=30):
                ...
                await consumer.ack(message)

    What is not acknowledged in time comes again, to whoever asks. No queues are shared out, so that any number of
    members may take part. With `is_ordered` a queue gives nothing more until all that it gave was acknowledged, or
    comes again. Needs brokers of 5.x.
    """

    consume_type: ClassVar[str] = "CONSUME_POP"
    message_model: ClassVar[str] = "CLUSTERING"

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
        names.check_group(group)
        if consume_from is ConsumeFrom.TIMESTAMP:
            raise ConfigurationError("a group that pops begins at the first or the last offset, not at a time")
        self.group = group
        self.options = options_of(options, **shared)
        self._wrapped_group = self.options.wrap(group)
        self._consume_from = consume_from
        self._is_ordered = is_ordered
        self._lifecycle = Lifecycle(f"consumer of group {group!r}")
        self._subscriptions: dict[str, SubscriptionData] = {}
        for topic, expression in expressions(topics).items():
            names.check_topic(topic)
            self._subscribe(self.options.wrap(topic), expression)
        self._turn = random.randrange(1024)  # noqa: S311
        self._session: Session
        self._acknowledging: Acknowledging
        self._popping: Popping

    # Its life

    async def start(self) -> None:
        """Joins the group; RemotingError if no NameServer answers, NoPermission if a broker refuses us."""
        self._lifecycle.begin()
        self._session = session = await Session.acquire(self.options)
        self._acknowledging = Acknowledging(session, self._wrapped_group)
        self._popping = Popping(
            session,
            self._wrapped_group,
            self._subscriptions.get,
            self._acknowledging,
            is_from_first=self._consume_from is ConsumeFrom.FIRST_OFFSET,
            is_ordered=self._is_ordered,
        )
        try:
            session.add_consumer(self._wrapped_group, self)
            for topic in self._subscriptions:
                session.routes.watch(topic)
                await session.routes.refresh(topic)
            await session.heartbeat()
            session.check_admitted()
        except BaseException:
            self._lifecycle.end()
            await self._leave()
            raise
        self._lifecycle.begun()

    async def close(self) -> None:
        """Leaves the group. What was received and not acknowledged comes again when its time is over."""
        if self._lifecycle.end():
            await self._leave()

    async def _leave(self) -> None:
        session = self._session
        if session.consumers.get(self._wrapped_group) is self:
            await session.remove_consumer(self._wrapped_group)
            for topic in self._subscriptions:
                session.routes.unwatch(topic)
        await session.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _subscribe(self, topic: str, expression: Expression) -> None:
        self._subscriptions[topic] = subscription(topic, expression, self.options.clock.millis())

    async def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Receives messages of a topic from now on, or other messages of it."""
        names.check_topic(topic)
        wrapped = self.options.wrap(topic)
        is_new = wrapped not in self._subscriptions
        self._subscribe(wrapped, expression)
        if self._lifecycle.is_running:
            if is_new:
                self._session.routes.watch(wrapped)
            await self._session.routes.refresh(wrapped)
            await self._session.heartbeat()

    async def unsubscribe(self, topic: str) -> None:
        wrapped = self.options.wrap(topic)
        if self._subscriptions.pop(wrapped, None) is not None and self._lifecycle.is_running:
            self._session.routes.unwatch(wrapped)
            await self._session.heartbeat()

    # Messages

    async def receive(
        self, count: int = BATCH_SIZE_MAX, *, invisible_seconds: float = 60.0, wait_seconds: float = 15.0
    ) -> list[Received]:
        """Returns at most `count` messages, and 32; none if none come in time. Nobody else gets them meanwhile.

        NoRoute if no broker has any of the topics; AnswerError or RemotingError if one refuses, or is lost.
        """
        self._lifecycle.check()
        clock = self.options.clock
        deadline = clock.monotonic() + wait_seconds
        while True:
            left = max(0.0, deadline - clock.monotonic())
            messages = await self._popping.pop(await self._targets(), count, invisible_seconds, left)
            if messages or deadline <= clock.monotonic():
                return messages
            if deadline - clock.monotonic() < _AFTER_NOTHING_SECONDS:
                return []
            await clock.sleep(_AFTER_NOTHING_SECONDS / 10)

    async def _targets(self) -> list[Target]:
        """Returns topics and brokers, beginning with another each time."""
        found: list[Target] = []
        for topic in self._subscriptions:
            route = self._session.routes.known(topic) or await self._session.routes.refresh(topic)
            if route is not None:
                brokers = dict.fromkeys(queue.broker_name for queue in route.read_queues)
                found += [Target(topic, name) for name in brokers]
        if not found:
            raise NoRoute(f"no broker has a topic of {', '.join(self._subscriptions) or 'none at all'}")
        self._turn += 1
        start = self._turn % len(found)
        return found[start:] + found[:start]

    async def ack(self, *messages: Received) -> None:
        """Says that messages were consumed; those of one broker in one request.

        AnswerError if a single one is too late, and comes again; among several, brokers pass over those that are.
        """
        self._lifecycle.check()
        await self._acknowledging.ack(messages)

    async def change_invisible(self, message: Received, invisible_seconds: float) -> None:
        """Has a message come again so many seconds from now, sooner or later than it would; 0 is at once."""
        self._lifecycle.check()
        await self._acknowledging.change_invisible(message, invisible_seconds)

    @asynccontextmanager
    async def renewing(self, message: Received) -> AsyncIterator[Received]:
        """Keeps a message invisible as long as it is worked on: `async with consumer.renewing(message): ...`."""
        self._lifecycle.check()
        seconds = Receipt.parse(message.receipt).invisible_millis / 1000
        renewing = asyncio.create_task(self._renew(message, seconds), name="renew a message")
        try:
            yield message
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _renew(self, message: Received, seconds: float) -> None:
        while True:
            await self.options.clock.sleep(seconds / 2)
            try:
                await self.change_invisible(message, seconds)
            except KeroloxError as error:
                log.warning("%s may come again while it is worked on: %s", message, error)

    # For the session

    @property
    def consume_from_where(self) -> str:
        return str(self._consume_from.value)

    @property
    def is_unit(self) -> bool:
        return self.options.unit_mode

    def subscriptions(self) -> Sequence[SubscriptionData]:
        return list(self._subscriptions.values())

    def rebalance_soon(self) -> None:
        """Nothing is shared out."""

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Where the group goes on, only the broker knows."""

    def status(self, topic: str) -> Mapping[MessageQueue, int]:
        return {}

    def running_info(self, *, has_stacks: bool) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(
            properties={
                "PROP_CONSUME_TYPE": self.consume_type,
                "PROP_NAMESERVER_ADDR": self.options.namesrv_url or ";".join(self.options.name_servers),
            },
            subscription_set=list(self._subscriptions.values()),
        )

    async def consume_directly(self, message: Received) -> DirectResult:
        raise SystemFailure(f"the consumer of group {self.group!r} has no handler that could be called")
