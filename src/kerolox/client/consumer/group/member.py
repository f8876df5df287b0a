"""A member of a consumer group: its subscriptions, assigned queues and offsets."""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from kerolox.client import resource_names
from kerolox.client.consumer.fetch.pull_request import Puller
from kerolox.client.consumer.fetch.queue_reader import QueueReader
from kerolox.client.consumer.group.assigned_queues import AssignedQueues
from kerolox.client.consumer.group.offset_store import BrokerOffsetStore, LocalOffsetStore, OffsetStore, local_path
from kerolox.client.consumer.group.rebalance import MessageModel, Rebalancer
from kerolox.client.consumer.group.subscriptions import ALL, Expression, build_subscription
from kerolox.client.consumer.running_info import running_info
from kerolox.client.consumer.settings import MemberSettings
from kerolox.client.consumer.statistics import SAMPLE_SECONDS, ConsumeStatistics
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.client.session.lifecycle import Lifecycle
from kerolox.client.session.members import DirectResult
from kerolox.client.session.session import Session
from kerolox.errors import ConfigurationError, ServiceFailed, TopicNotFound
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.runtime.service import Periodic, Service, Supervisor
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo

log = logging.getLogger(__name__)


class GroupMember(AssignedQueues):
    """The base class of push and pull consumers."""

    consume_type: ClassVar[str]
    # How long a broker may hold a pull request until a message arrives (long polling).
    suspend_seconds: ClassVar[float] = 15.0
    is_lite: ClassVar[bool] = False
    # Whether failed messages are retried through the retry topic of the group.
    has_retries: ClassVar[bool] = True

    def __init__(
        self, group: str, topics: Mapping[str, Expression], options: Options, member_settings: MemberSettings
    ) -> None:
        resource_names.check_group(group)
        if group == resource_names.DEFAULT_CONSUMER_GROUP:
            raise ConfigurationError(f"group {group!r} is Java's default for all applications: use another name")
        super().__init__(options.wrap(group), member_settings)
        self.group = group
        self.options = options
        self._lifecycle = Lifecycle(f"consumer of group {group!r}")
        self._subscriptions: dict[str, SubscriptionData] = {}
        if member_settings.message_model is MessageModel.CLUSTERING and self.has_retries:
            self._subscribe(resource_names.retry_topic(self._wrapped_group), ALL)
        for topic, expression in topics.items():
            resource_names.check_topic(topic)
            self._subscribe(options.wrap(topic), expression)
        self.statistics = ConsumeStatistics(options.clock)
        self._supervisor = Supervisor()
        self._closed = asyncio.Event()
        # For QueueReader
        self.may_pull = asyncio.Event()
        self.may_pull.set()
        self.commits_with_pull = member_settings.message_model is MessageModel.CLUSTERING
        self.pull_interval_seconds = member_settings.pull_interval_seconds
        self.puller: Puller

    # ConsumerMember

    @property
    def is_orderly(self) -> bool:
        return False

    @property
    def concurrency(self) -> int:
        """Maximum of concurrent calls of the handler."""
        return 1

    @property
    def message_model(self) -> str:
        return self.member_settings.message_model.value

    @property
    def consume_from_where(self) -> str:
        return self.member_settings.consume_from.value

    @property
    def is_unit(self) -> bool:
        return self.options.unit_mode

    def subscriptions(self) -> Sequence[SubscriptionData]:
        return list(self._subscriptions.values())

    def rebalance_soon(self) -> None:
        if self._lifecycle.is_running:
            self._rebalancer.request()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets, and drop the messages of these queues that were pulled before."""
        for queue, offset in offsets.items():
            reader = self._readers.get(queue)
            if queue.topic == topic and reader is not None:
                await self._restart_at(reader, offset)
        self.rebalance_soon()

    def status(self, topic: str) -> Mapping[MessageQueue, int]:
        return self.offsets.of_topic(topic)

    def running_info(self, *, has_stacks: bool) -> ConsumerRunningInfo:
        return running_info(self, self._readers.values(), has_stacks=has_stacks)

    @abstractmethod
    async def consume_directly(self, message: Received) -> DirectResult:
        """Consume one message for an operator; nothing is committed."""

    # Lifecycle

    async def start(self) -> None:
        """Join the group. Subscribed topics need not exist yet.

        Raises RemotingError if no NameServer responds, NoPermission if a broker refuses.
        """
        self._lifecycle.set_starting()
        self.started_millis = self.options.clock.millis()
        self._session = await Session.acquire(self.options)
        try:
            await self._join()
        except BaseException:
            self._lifecycle.set_closed()
            await self._leave()
            raise
        self._lifecycle.set_running()

    async def _join(self) -> None:
        session, member_settings, clock = self._session, self.member_settings, self.options.clock
        self.puller = Puller(
            session,
            self._wrapped_group,
            batch_size=member_settings.pull_batch_size,
            batch_bytes=member_settings.pull_batch_size_bytes,
            suspend_seconds=self.suspend_seconds,
            has_expression=member_settings.post_subscription_when_pull,
            is_lite=self.is_lite,
        )
        self.offsets = await self._open_offset_store()
        self._rebalancer = Rebalancer(
            session,
            self._wrapped_group,
            lambda: self._subscriptions,
            self._apply_assignment,
            model=member_settings.message_model,
            strategy=member_settings.strategy,
        )
        self._supervisor = Supervisor(
            Periodic(
                "offsets",
                seconds=member_settings.persist_consumer_offset_interval_seconds,
                job=self._persist,
                clock=clock,
            ),
            Periodic("statistics", seconds=SAMPLE_SECONDS, job=self.statistics.sample, clock=clock),
            *self._services(),
        )
        session.add_consumer(self._wrapped_group, self)
        for topic in self._subscriptions:
            session.routes.watch(topic)
        await self._fetch_routes()
        await session.heartbeat()
        session.check_admitted()
        await self._supervisor.open()
        self._rebalancer.start()

    async def _open_offset_store(self) -> OffsetStore:
        if self.member_settings.message_model is MessageModel.CLUSTERING:
            return BrokerOffsetStore(self._session, self._wrapped_group)
        # Not the client id, which differs in each process: the file must be found again after a restart.
        client_id = f"{self.options.ip}@{self.options.instance_name or 'DEFAULT'}"
        offsets = LocalOffsetStore(
            local_path(Path(self.member_settings.local_offset_store_dir), client_id, self._wrapped_group)
        )
        await offsets.load()
        return offsets

    async def _fetch_routes(self) -> None:
        for topic in self._subscriptions:
            try:
                await self._session.routes.get(topic)
            except TopicNotFound:
                log.debug("topic %s does not exist yet", topic)

    def _services(self) -> list[Service]:
        """Return further services that run while the consumer is open."""
        return []

    async def close(self) -> None:
        """Finish and commit the messages that are being consumed, then leave the group. Closing twice does nothing."""
        if not self._lifecycle.set_closed():
            return
        try:
            await self._rebalancer.stop()
            await asyncio.gather(*(reader.stop() for reader in self._readers.values()))
            await self._drain()
            await asyncio.gather(*self._releasing.values(), return_exceptions=True)
            await self._supervisor.stop()
            await self._persist(wait_for_response=True)
            for reader in self._readers.values():
                reader.process_queue.drop()
            if self.locks is not None:
                await self.locks.unlock(list(self._readers))
        finally:
            self._readers.clear()
            try:
                await self._leave()
            finally:
                self._closed.set()

    async def _leave(self) -> None:
        session = self._session
        if session.consumers.get(self._wrapped_group) is self:
            await session.remove_consumer(self._wrapped_group)
            for topic in self._subscriptions:
                session.routes.unwatch(topic)
        await session.release()

    @abstractmethod
    async def _drain(self) -> None:
        """Wait, within limits, until the pulled messages have been consumed. The readers have stopped."""

    async def closed(self) -> None:
        """Return when the consumer has been closed; raise ServiceFailed if one of its services has failed."""
        await self._supervisor.wait()
        await self._closed.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        try:
            await self._supervisor.enter()
        except ServiceFailed:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        error = self._supervisor.leave(error)
        await self.close()
        self._supervisor.settle(error)

    # Subscriptions

    def _subscribe(self, topic: str, expression: Expression) -> None:
        self._subscriptions[topic] = build_subscription(topic, expression, self.options.clock.millis())

    def subscription_of(self, topic: str) -> SubscriptionData | None:
        return self._subscriptions.get(topic)

    async def subscribe(self, topic: str, expression: Expression = ALL) -> None:
        """Subscribe to a topic, or change a subscription. The expression is tags separated by `||`, or Sql92(...)."""
        resource_names.check_topic(topic)
        wrapped = self.options.wrap(topic)
        is_new = wrapped not in self._subscriptions
        self._subscribe(wrapped, expression)
        if self._lifecycle.is_running:
            if is_new:
                self._session.routes.watch(wrapped)
            await self._fetch_routes()
            await self._session.heartbeat()
            self._rebalancer.request()

    async def unsubscribe(self, topic: str) -> None:
        wrapped = self.options.wrap(topic)
        if self._subscriptions.pop(wrapped, None) is None or not self._lifecycle.is_running:
            return
        for reader in [reader for queue, reader in self._readers.items() if queue.topic == wrapped]:
            await self._remove_queue(reader)
        self._session.routes.unwatch(wrapped)
        await self._session.heartbeat()

    def _is_subscribed(self, queue: MessageQueue) -> bool:
        return queue.topic in self._subscriptions

    def _new_reader(self, queue: MessageQueue, offset: int) -> QueueReader:
        return QueueReader(self, queue, offset)

    # Callbacks of QueueReader

    @abstractmethod
    def on_messages(self, reader: QueueReader, messages: list[Received]) -> None: ...

    def on_offset_moved(self, reader: QueueReader, offset: int) -> None:
        async def restart() -> None:
            await self._restart_at(reader, offset)
            self.rebalance_soon()

        self._session.run_in_background(restart(), f"restart {reader.queue}")

    def on_unreadable(self, reader: QueueReader, record: Record, error: CompressionError) -> None:
        log.error("skipped message %s of %s: %s", record.message_id, reader.queue, error)

    def on_not_registered(self) -> None:
        self._session.heartbeat_soon()
