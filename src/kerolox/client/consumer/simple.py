"""The simple consumer, which pops messages and acknowledges each of them; brokers keep track of the rest (POP)."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, Final, Self, Unpack

from kerolox.client import resource_names
from kerolox.client.consumer.fetch.pop_request import BATCH_SIZE_MAX, PopRequests, PopTarget
from kerolox.client.consumer.fetch.receipt_handle import ReceiptHandle
from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.group.subscriptions import ALL, Expression, build_subscription, expressions
from kerolox.client.consumer.handle.acks import Acks
from kerolox.client.errors import NoRoute
from kerolox.client.messages import Received
from kerolox.client.options import Options, Shared, options_of
from kerolox.client.session.lifecycle import Lifecycle
from kerolox.client.session.members import DirectResult
from kerolox.client.session.session import Session
from kerolox.errors import ConfigurationError, KeroloxError, SystemFailure
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo

log = logging.getLogger(__name__)

_AFTER_NOTHING_SECONDS: Final = 1.0


class SimpleConsumer:
    """Receives messages, which are invisible to the rest of the group for some time, and acknowledges them.

        async with SimpleConsumer("group", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
            for message in await consumer.receive(32, invisible_seconds=30):
                ...
                await consumer.ack(message)

    A message that is not acknowledged in time is redelivered to any member. Queues are not assigned to members, so a
    group may have any number of them. With `is_ordered`, a queue delivers no more messages until all earlier ones
    have been acknowledged or have become visible again. Needs 5.x brokers.
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
        resource_names.check_group(group)
        if consume_from is ConsumeFrom.TIMESTAMP:
            raise ConfigurationError("a SimpleConsumer can begin at the first or the last offset, not at a timestamp")
        self.group = group
        self.options = options_of(options, **shared)
        self._wrapped_group = self.options.wrap(group)
        self._consume_from = consume_from
        self._is_ordered = is_ordered
        self._lifecycle = Lifecycle(f"consumer of group {group!r}")
        self._subscriptions: dict[str, SubscriptionData] = {}
        for topic, expression in expressions(topics).items():
            resource_names.check_topic(topic)
            self._subscribe(self.options.wrap(topic), expression)
        self._rotation = random.randrange(1024)  # noqa: S311
        self._session: Session
        self._acks: Acks
        self._pop_requests: PopRequests

    # Lifecycle

    async def start(self) -> None:
        """Join the group; raise RemotingError if no NameServer responds, NoPermission if a broker refuses."""
        self._lifecycle.set_starting()
        self._session = session = await Session.acquire(self.options)
        self._acks = Acks(session, self._wrapped_group)
        self._pop_requests = PopRequests(
            session,
            self._wrapped_group,
            self._subscriptions.get,
            self._acks,
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
            self._lifecycle.set_closed()
            await self._leave()
            raise
        self._lifecycle.set_running()

    async def close(self) -> None:
        """Leave the group. Unacknowledged messages are redelivered when their invisible time ends."""
        if self._lifecycle.set_closed():
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
        self._subscriptions[topic] = build_subscription(topic, expression, self.options.clock.millis())

    async def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Subscribe to a topic, or change the expression of a subscription."""
        resource_names.check_topic(topic)
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
        """Wait for messages and return at most `count` of them, and at most 32; an empty list after `wait_seconds`.

        The messages are invisible to other members for `invisible_seconds`. Raises NoRoute if no broker has any of the
        topics, and AnswerError or RemotingError if all brokers fail.
        """
        self._lifecycle.check()
        clock = self.options.clock
        deadline = clock.monotonic() + wait_seconds
        while True:
            left = max(0.0, deadline - clock.monotonic())
            messages = await self._pop_requests.pop(await self._targets(), count, invisible_seconds, left)
            if messages or deadline <= clock.monotonic():
                return messages
            if deadline - clock.monotonic() < _AFTER_NOTHING_SECONDS:
                return []
            await clock.sleep(_AFTER_NOTHING_SECONDS / 10)

    async def _targets(self) -> list[PopTarget]:
        """Return all topics and brokers, rotated so that each call begins with another one."""
        found: list[PopTarget] = []
        for topic in self._subscriptions:
            route = self._session.routes.known(topic) or await self._session.routes.refresh(topic)
            if route is not None:
                brokers = dict.fromkeys(queue.broker_name for queue in route.read_queues)
                found += [PopTarget(topic, name) for name in brokers]
        if not found:
            raise NoRoute(f"no broker has any of the subscribed topics: {', '.join(self._subscriptions) or '(none)'}")
        self._rotation += 1
        start = self._rotation % len(found)
        return found[start:] + found[:start]

    async def ack(self, *messages: Received) -> None:
        """Acknowledge messages, in one request per broker.

        Raises AnswerError if a single message is too late and will be redelivered; in a batch, brokers ignore late
        acknowledgements.
        """
        self._lifecycle.check()
        await self._acks.ack(messages)

    async def change_invisible(self, message: Received, invisible_seconds: float) -> None:
        """Make a message visible again in this many seconds from now; 0 is at once."""
        self._lifecycle.check()
        await self._acks.change_invisible(message, invisible_seconds)

    @asynccontextmanager
    async def renewing(self, message: Received) -> AsyncIterator[Received]:
        """Keep a message invisible while it is being consumed: `async with consumer.renewing(message): ...`."""
        self._lifecycle.check()
        seconds = ReceiptHandle.parse(message.receipt).invisible_millis / 1000
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
                log.warning("%s may be redelivered while it is being consumed: %s", message, error)

    # ConsumerMember

    @property
    def consume_from_where(self) -> str:
        return str(self._consume_from.value)

    @property
    def is_unit(self) -> bool:
        return self.options.unit_mode

    def subscriptions(self) -> Sequence[SubscriptionData]:
        return list(self._subscriptions.values())

    def rebalance_soon(self) -> None:
        """Do nothing: queues are not assigned to members."""

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Do nothing: only the broker has the offsets of a pop group."""

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
        raise SystemFailure(f"the consumer of group {self.group!r} has no handler to call")
