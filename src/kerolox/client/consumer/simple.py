"""The simple consumer: takes messages for a time, and says of each when it is done; brokers keep the books (POP)."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, Final, Self, Unpack

from kerolox.client import names
from kerolox.client.consumer.positions import ConsumeFrom
from kerolox.client.consumer.receipts import Receipt, receipts
from kerolox.client.consumer.subscriptions import ALL, Expression, TagFilter, expressions, subscription
from kerolox.client.errors import NoRoute
from kerolox.client.lifecycle import Lifecycle
from kerolox.client.members import DirectResult
from kerolox.client.messages import Received, received
from kerolox.client.options import Options, Shared, options_of
from kerolox.client.routes import MASTER_ID
from kerolox.client.session import Session
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConfigurationError, ConnectFailed, KeroloxError, SystemFailure
from kerolox.message.message import Message as Record
from kerolox.message.record import decode_all
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo
from kerolox.wire.headers.pop import AckMessage, ChangeMessageInvisibleTime, Notification, PopMessage, Popped

log = logging.getLogger(__name__)

# What a broker gives at most for one pop.
BATCH_SIZE_MAX: Final = 32
ANY_QUEUE: Final = -1
_FROM_FIRST, _FROM_LAST = 0, 1
_NOTHING = frozenset({ResponseCode.POLLING_FULL, ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND})
# A poll is answered later than it says when the broker is busy.
_GRACE_SECONDS: Final = 10.0
_AFTER_NOTHING_SECONDS: Final = 1.0


class SimpleConsumer:
    """Takes messages, which nobody else of the group gets for a time, and acknowledges them.

        async with SimpleConsumer("group", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
            for message in await consumer.receive(32, invisible_seconds=30):
                ...
                await consumer.ack(message)

    What is not acknowledged in time comes again, to whoever asks. No queues are shared out, so that any number of
    members may take part. Needs brokers of 5.x.
    """

    consume_type: ClassVar[str] = "CONSUME_POP"
    message_model: ClassVar[str] = "CLUSTERING"

    def __init__(
        self,
        group: str,
        *,
        topics: Mapping[str, Expression] | Iterable[str] | str,
        consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
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
        self._lifecycle = Lifecycle(f"consumer of group {group!r}")
        self._subscriptions: dict[str, SubscriptionData] = {}
        for topic, expression in expressions(topics).items():
            names.check_topic(topic)
            self._subscribe(self.options.wrap(topic), expression)
        self._turn = random.randrange(1024)  # noqa: S311
        self._session: Session

    # Its life

    async def start(self) -> None:
        """Joins the group; RemotingError if no NameServer answers, NoPermission if a broker refuses us."""
        self._lifecycle.begin()
        self._session = session = await Session.acquire(self.options)
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
            targets = await self._targets()
            left = max(0.0, deadline - clock.monotonic())
            if len(targets) == 1:
                messages = await self._pop(*targets[0], count, invisible_seconds, left)
            else:
                messages = await self._pop_one_of(targets, count, invisible_seconds, left)
            if messages or deadline <= clock.monotonic():
                return messages
            if deadline - clock.monotonic() < _AFTER_NOTHING_SECONDS:
                return []
            await clock.sleep(_AFTER_NOTHING_SECONDS / 10)

    async def _targets(self) -> list[tuple[str, str]]:
        """Returns topics and brokers, beginning with another each time."""
        found: list[tuple[str, str]] = []
        for topic in self._subscriptions:
            route = self._session.routes.known(topic) or await self._session.routes.refresh(topic)
            if route is not None:
                found += [(topic, name) for name in dict.fromkeys(queue.broker_name for queue in route.read_queues)]
        if not found:
            raise NoRoute(f"no broker has a topic of {', '.join(self._subscriptions) or 'none at all'}")
        self._turn += 1
        start = self._turn % len(found)
        return found[start:] + found[:start]

    async def _pop_one_of(
        self, targets: list[tuple[str, str]], count: int, invisible_seconds: float, wait_seconds: float
    ) -> list[Received]:
        """Looks everywhere; then waits until somebody has something, and looks again."""
        failures: list[KeroloxError] = []
        for topic, broker_name in targets:
            try:
                messages = await self._pop(topic, broker_name, count, invisible_seconds, 0)
            except KeroloxError as error:
                log.warning("%s of broker %s was not popped: %s", topic, broker_name, error)
                failures.append(error)
                continue
            if messages:
                return messages
        if len(failures) == len(targets):
            raise failures[-1]
        if wait_seconds > 0:
            await self._notified(targets, wait_seconds)
        return []

    async def _notified(self, targets: list[tuple[str, str]], wait_seconds: float) -> None:
        waits = [asyncio.ensure_future(self._notify(*target, wait_seconds)) for target in targets]
        try:
            for done in asyncio.as_completed(waits):
                if await done:
                    return
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _notify(self, topic: str, broker_name: str, wait_seconds: float) -> bool:
        request = Notification(
            consumer_group=self._wrapped_group,
            topic=topic,
            queue_id=ANY_QUEUE,
            poll_time=int(wait_seconds * 1000),
            born_time=self.options.clock.millis(),
        )
        try:
            reply = await self._session.call(
                self._address(broker_name), request, timeout_seconds=wait_seconds + _GRACE_SECONDS
            )
        except KeroloxError as error:
            log.warning("broker %s does not say when it has something: %s", broker_name, error)
            return False
        return reply.fields.has_msg

    async def _pop(
        self, topic: str, broker_name: str, count: int, invisible_seconds: float, wait_seconds: float
    ) -> list[Received]:
        wanted = self._subscriptions.get(topic)
        if wanted is None:
            return []
        request = PopMessage(
            consumer_group=self._wrapped_group,
            topic=topic,
            queue_id=ANY_QUEUE,
            max_msg_nums=min(count, BATCH_SIZE_MAX),
            invisible_time=int(invisible_seconds * 1000),
            poll_time=int(wait_seconds * 1000),
            born_time=self.options.clock.millis(),
            init_mode=_FROM_FIRST if self._consume_from is ConsumeFrom.FIRST_OFFSET else _FROM_LAST,
            exp_type=wanted.expression_type,
            exp=wanted.sub_string,
        )
        answer = await self._session.ask(
            self._address(broker_name), request, timeout_seconds=wait_seconds + _GRACE_SECONDS
        )
        if answer.code in _NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise AnswerError.of(answer.code, answer.remark)
        return self._received(topic, broker_name, Popped.decode(answer.ext), decode_all(answer.body), wanted)

    def _received(
        self, topic: str, broker_name: str, popped: Popped, records: list[Record], wanted: SubscriptionData
    ) -> list[Received]:
        messages: list[Received] = []
        unwanted: list[Received] = []
        is_wanted = TagFilter(wanted)
        for record, receipt in zip(records, receipts(popped, records, broker_name), strict=True):
            queue = MessageQueue(broker_name, record.queue_id, record.topic)
            message = received(record, queue, self.options.unwrap(topic))
            message.receipt = receipt
            (messages if is_wanted.of([record]) else unwanted).append(message)
        if unwanted:
            self._session.run(self.ack(*unwanted), "ack messages of other tags")
        return messages

    async def ack(self, *messages: Received) -> None:
        """Says that messages were consumed; AnswerError if it is too late, and they come again."""
        self._lifecycle.check()
        await asyncio.gather(*map(self._ack, messages))

    async def _ack(self, message: Received) -> None:
        receipt = Receipt.parse(message.receipt)
        request = AckMessage(
            consumer_group=self._wrapped_group,
            topic=receipt.topic(self.options.wrap(message.topic), self._wrapped_group),
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.queue_offset,
        )
        await self._session.call(self._address(receipt.broker_name), request)

    async def change_invisible(self, message: Received, invisible_seconds: float) -> None:
        """Has a message come again so many seconds from now, sooner or later than it would; 0 is at once."""
        self._lifecycle.check()
        receipt = Receipt.parse(message.receipt)
        request = ChangeMessageInvisibleTime(
            consumer_group=self._wrapped_group,
            topic=receipt.topic(self.options.wrap(message.topic), self._wrapped_group),
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=receipt.queue_offset,
            invisible_time=int(invisible_seconds * 1000),
        )
        reply = await self._session.call(self._address(receipt.broker_name), request)
        message.receipt = str(receipt.renewed(reply.fields))

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

    def _address(self, broker_name: str) -> str:
        address = self._session.routes.address(broker_name, MASTER_ID)
        if address is None:
            raise ConnectFailed(f"no address of broker {broker_name} is known")
        return address

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
                "PROP_NAMESERVER_ADDR": ";".join(self.options.name_servers),
            },
            subscription_set=list(self._subscriptions.values()),
        )

    async def consume_directly(self, message: Received) -> DirectResult:
        raise SystemFailure(f"the consumer of group {self.group!r} has no handler that could be called")
