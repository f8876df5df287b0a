"""A member of a consumer group: what it wants, which queues it has, and how far it has come in them."""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from kerolox.client import names
from kerolox.client.consumer.offsets import BrokerOffsets, LocalOffsets, Offsets, local_path
from kerolox.client.consumer.owning import QueueOwner
from kerolox.client.consumer.pulling import Puller
from kerolox.client.consumer.reading import Reader
from kerolox.client.consumer.rebalance import MessageModel, Rebalancer
from kerolox.client.consumer.running import running_info
from kerolox.client.consumer.settings import Membership
from kerolox.client.consumer.statistics import SAMPLE_SECONDS, ConsumeStatistics
from kerolox.client.consumer.subscriptions import ALL, Expression, subscription
from kerolox.client.lifecycle import Lifecycle
from kerolox.client.members import DirectResult
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.client.session import Session
from kerolox.errors import ConfigurationError, TopicNotFound
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.runtime.service import Periodic, Service, Supervisor
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo

log = logging.getLogger(__name__)


class GroupMember(QueueOwner):
    """What push and pull consumers have in common."""

    consume_type: ClassVar[str]
    # How long a broker may keep a pull until something comes.
    suspend_seconds: ClassVar[float] = 15.0
    is_lite: ClassVar[bool] = False
    # Whether failed messages come again by a topic of the group's own.
    has_retries: ClassVar[bool] = True

    def __init__(self, group: str, topics: Mapping[str, Expression], options: Options, membership: Membership) -> None:
        names.check_group(group)
        if group == names.DEFAULT_CONSUMER_GROUP:
            raise ConfigurationError(f"group {group!r} is everybody's: give your consumers a name of their own")
        super().__init__(options.wrap(group), membership)
        self.group = group
        self.options = options
        self._lifecycle = Lifecycle(f"consumer of group {group!r}")
        self._subscriptions: dict[str, SubscriptionData] = {}
        if membership.message_model is MessageModel.CLUSTERING and self.has_retries:
            self._subscribe(names.retry_topic(self._wrapped_group), ALL)
        for topic, expression in topics.items():
            names.check_topic(topic)
            self._subscribe(options.wrap(topic), expression)
        self.statistics = ConsumeStatistics(options.clock)
        self._closed = asyncio.Event()
        # For Reader
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.is_committing = membership.message_model is MessageModel.CLUSTERING
        self.pull_interval_seconds = membership.pull_interval_seconds
        self.puller: Puller

    # For the session

    @property
    def is_orderly(self) -> bool:
        return False

    @property
    def concurrency(self) -> int:
        """How many calls of a handler there may be at once."""
        return 1

    @property
    def message_model(self) -> str:
        return self.membership.message_model.value

    @property
    def consume_from_where(self) -> str:
        return self.membership.consume_from.value

    @property
    def is_unit(self) -> bool:
        return self.options.unit_mode

    def subscriptions(self) -> Sequence[SubscriptionData]:
        return list(self._subscriptions.values())

    def rebalance_soon(self) -> None:
        if self._lifecycle.is_running:
            self._rebalancer.soon()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Goes on elsewhere, as an operator wants it; what is in hand of these queues does not count any more."""
        for queue, offset in offsets.items():
            reader = self._readers.get(queue)
            if queue.topic == topic and reader is not None:
                await self._move(reader, offset)
        self.rebalance_soon()

    def status(self, topic: str) -> Mapping[MessageQueue, int]:
        return self.offsets.of_topic(topic)

    def running_info(self, *, has_stacks: bool) -> ConsumerRunningInfo:
        return running_info(self, self._readers.values(), has_stacks=has_stacks)

    @abstractmethod
    async def consume_directly(self, message: Received) -> DirectResult:
        """Consumes one message that an operator chose; nothing is committed."""

    # Its life

    async def start(self) -> None:
        """Joins the group. Topics may come to be later.

        RemotingError if no NameServer answers, NoPermission if a broker refuses us.
        """
        self._lifecycle.begin()
        self.started_millis = self.options.clock.millis()
        self._session = await Session.acquire(self.options)
        try:
            await self._join()
        except BaseException:
            self._lifecycle.end()
            await self._leave()
            raise
        self._lifecycle.begun()

    async def _join(self) -> None:
        session, membership, clock = self._session, self.membership, self.options.clock
        self.puller = Puller(
            session,
            self._wrapped_group,
            batch_size=membership.pull_batch_size,
            batch_bytes=membership.pull_batch_size_bytes,
            suspend_seconds=self.suspend_seconds,
            has_expression=membership.post_subscription_when_pull,
            is_lite=self.is_lite,
        )
        self.offsets = await self._offsets()
        self._rebalancer = Rebalancer(
            session,
            self._wrapped_group,
            lambda: self._subscriptions,
            self._apply,
            model=membership.message_model,
            strategy=membership.strategy,
        )
        self._supervisor = Supervisor(
            Periodic(
                "offsets",
                seconds=membership.persist_consumer_offset_interval_seconds,
                job=self._persist,
                clock=clock,
            ),
            Periodic("statistics", seconds=SAMPLE_SECONDS, job=self.statistics.sample, clock=clock),
            *self._services(),
        )
        session.add_consumer(self._wrapped_group, self)
        for topic in self._subscriptions:
            session.routes.watch(topic)
        await self._find_routes()
        await session.heartbeat()
        session.check_admitted()
        await self._supervisor.__aenter__()
        self._rebalancer.start()

    async def _offsets(self) -> Offsets:
        if self.membership.message_model is MessageModel.CLUSTERING:
            return BrokerOffsets(self._session, self._wrapped_group)
        # Client ids are another each time, and this must be found again.
        client_id = f"{self.options.ip}@{self.options.instance_name or 'DEFAULT'}"
        offsets = LocalOffsets(local_path(Path(self.membership.local_offset_store_dir), client_id, self._wrapped_group))
        await offsets.load()
        return offsets

    async def _find_routes(self) -> None:
        for topic in self._subscriptions:
            try:
                await self._session.routes.get(topic)
            except TopicNotFound:
                log.debug("topic %s is not there yet", topic)

    def _services(self) -> list[Service]:
        """Returns what else runs as long as the member does."""
        return []

    async def close(self) -> None:
        """Leaves the group, after what is in hand was finished and committed. Closing twice does nothing."""
        if not self._lifecycle.end():
            return
        try:
            await self._rebalancer.stop()
            await asyncio.gather(*(reader.stop() for reader in self._readers.values()))
            await self._finish()
            await asyncio.gather(*self._leaving.values(), return_exceptions=True)
            await self._supervisor.__aexit__(None, None, None)
            await self._persist(is_last=True)
            for reader in self._readers.values():
                reader.window.drop()
            if self.locks is not None:
                await self.locks.unlock(list(self._readers))
        finally:
            self._readers.clear()
            await self._leave()
            self._closed.set()

    async def _leave(self) -> None:
        session = self._session
        if session.consumers.get(self._wrapped_group) is self:
            await session.remove_consumer(self._wrapped_group)
            for topic in self._subscriptions:
                session.routes.unwatch(topic)
        await session.release()

    @abstractmethod
    async def _finish(self) -> None:
        """Waits for what is in hand, as long as that is reasonable. Nothing more is read."""

    async def closed(self) -> None:
        """Returns when the consumer has been closed."""
        await self._closed.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # What it wants

    def _subscribe(self, topic: str, expression: Expression) -> None:
        self._subscriptions[topic] = subscription(topic, expression, self.options.clock.millis())

    def wanted(self, topic: str) -> SubscriptionData | None:
        return self._subscriptions.get(topic)

    async def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Wants messages of a topic from now on, or other messages of it: tags parted by `||`, or Sql92(...)."""
        names.check_topic(topic)
        wrapped = self.options.wrap(topic)
        is_new = wrapped not in self._subscriptions
        self._subscribe(wrapped, expression)
        if self._lifecycle.is_running:
            if is_new:
                self._session.routes.watch(wrapped)
            await self._find_routes()
            await self._session.heartbeat()
            self._rebalancer.soon()

    async def unsubscribe(self, topic: str) -> None:
        wrapped = self.options.wrap(topic)
        if self._subscriptions.pop(wrapped, None) is None or not self._lifecycle.is_running:
            return
        for reader in [reader for queue, reader in self._readers.items() if queue.topic == wrapped]:
            await self._lose(reader)
        self._session.routes.unwatch(wrapped)
        await self._session.heartbeat()

    def _is_wanted(self, queue: MessageQueue) -> bool:
        return queue.topic in self._subscriptions

    def _reader_from(self, queue: MessageQueue, offset: int) -> Reader:
        return Reader(self, queue, offset)

    # What readers tell

    @abstractmethod
    def delivered(self, reader: Reader, messages: list[Received]) -> None: ...

    def moved(self, reader: Reader, offset: int) -> None:
        async def move() -> None:
            await self._move(reader, offset)
            self.rebalance_soon()

        self._session.run(move(), f"move {reader.queue}")

    def unreadable(self, reader: Reader, record: Record, error: CompressionError) -> None:
        log.error("message %s of %s was passed over: %s", record.message_id, reader.queue, error)

    def unknown_here(self) -> None:
        self._session.heartbeat_soon()
