"""Offsets of consumer groups: progress, commits and resets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from kerolox.admin.connections import Connections
from kerolox.admin.queues import Queues, Timestamp, to_millis
from kerolox.admin.targets import Servers
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.client.session.requests import LANGUAGE
from kerolox.codes import Version
from kerolox.errors import ConsumerNotOnline, KeroloxError, QueryNotFound
from kerolox.wire.bodies.offsets import (
    BrokerConsumeStats,
    ConsumeStats,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
    OffsetWrapper,
    ResetOffsetBody,
)
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import TopicList
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import offsets as o
from kerolox.wire.headers.namesrv import GetAllTopicListFromNameserver

# A timestamp that stands for the end of each queue.
END = -1

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The offsets of a group in one queue."""

    # The max offset of the queue, and the next offset of the group.
    broker_offset: int
    consumer_offset: int
    # The next offset to deliver; None for brokers before 5.0.
    pull_offset: int | None
    # The store timestamp of the last consumed message; 0 if there is none.
    last_millis: int
    # The client that reads the queue, if requested.
    client_id: str | None = None

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a group in all its queues."""

    group: str
    queues: Mapping[MessageQueue, QueueProgress]
    # Messages consumed per second.
    consume_tps: float

    @property
    def lag(self) -> int:
        """Number of messages that the group has not consumed."""
        return sum(queue.lag for queue in self.queues.values())

    @property
    def by_topic(self) -> dict[str, int]:
        """Topic → lag."""
        return self._lags({queue: queue.topic for queue in self.queues})

    @property
    def by_client(self) -> dict[str | None, int]:
        """Client id → lag; None is the key for queues without a client."""
        return self._lags({queue: progress.client_id for queue, progress in self.queues.items()})

    def _lags(self, keys: Mapping[MessageQueue, K]) -> dict[K, int]:
        lags: dict[K, int] = {}
        for queue, key in keys.items():
            lags[key] = lags.get(key, 0) + self.queues[queue].lag
        return lags


@dataclass(frozen=True, slots=True)
class Rollback:
    """The result of a reset of one queue to a timestamp."""

    queue: MessageQueue
    broker_offset: int
    # The offset before, the offset of the timestamp, and the offset now.
    consumer_offset: int
    moment_offset: int
    offset: int


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The state of a group. `consume_type` and `message_model` are None if it is not online."""

    group: str
    # Number of clients online.
    client_count: int = 0
    consume_type: str | None = None
    message_model: str | None = None
    consume_tps: float = 0.0
    lag: int | None = None
    # Why a query failed.
    error: KeroloxError | None = None


class Offsets:
    def __init__(self, servers: Servers, queues: Queues, connections: Connections) -> None:
        self._servers = servers
        self._queues = queues
        self._connections = connections

    # Progress

    async def progress(self, group: str, topic: str | None = None, *, has_clients: bool = False) -> Progress:
        """Return the progress of a group, in all topics with offsets or in one.

        With `has_clients`, each client of the group is queried for its queues. A group without a committed offset has
        no queues in the result.
        """
        servers = self._servers
        brokers = await (servers.brokers_of_group(group) if topic is None else servers.brokers_of(topic))
        request = b.GetConsumeStats(consumer_group=group, topic=topic)
        found: dict[MessageQueue, QueueProgress] = {}
        rate = 0.0
        for reply in (await self._servers.ask_brokers(brokers, request)).values():
            stats = ConsumeStats.decode(reply.body)
            rate += stats.consume_tps
            for queue, offsets in stats.offset_table.items():
                found[queue] = QueueProgress(
                    offsets.broker_offset, offsets.consumer_offset, offsets.pull_offset, offsets.last_timestamp
                )
        if has_clients:
            owners = await self._owners(group)
            found = {queue: replace(progress, client_id=owners.get(queue)) for queue, progress in found.items()}
        return Progress(group, dict(sorted(found.items())), rate)

    async def _owners(self, group: str) -> dict[MessageQueue, str]:
        try:
            infos = await self._connections.running_infos(group)
        except ConsumerNotOnline:
            return {}
        return {queue: client_id for client_id, info in infos.items() for queue in info.mq_table}

    async def summaries(self) -> list[GroupSummary]:
        """Return a summary of each group that was ever online, sorted by lag, the largest first."""
        reply = await self._servers.ask_name_server(GetAllTopicListFromNameserver())
        topics = TopicList.decode(reply.body).topic_list
        groups = sorted(topic.removeprefix(RETRY_PREFIX) for topic in topics if topic.startswith(RETRY_PREFIX))
        found = await self._servers.gather(groups, self._summary)
        return sorted(found, key=lambda summary: summary.lag or 0, reverse=True)

    async def _summary(self, group: str) -> GroupSummary:
        try:
            consumers = await self._connections.consumers(group)
            summary = GroupSummary(
                group, len(consumers.connection_set), consumers.consume_type, consumers.message_model
            )
        except ConsumerNotOnline:
            summary = GroupSummary(group)
        except KeroloxError as error:
            return GroupSummary(group, error=error)
        try:
            progress = await self.progress(group)
        except KeroloxError as error:
            return replace(summary, error=error)
        return replace(summary, consume_tps=progress.consume_tps, lag=progress.lag)

    async def broker_progress(self, broker: str, *, only_ordered: bool = False) -> BrokerConsumeStats:
        """Return the progress of all groups on one broker."""
        address = await self._servers.address(broker)
        reply = await self._servers.call(address, b.GetBrokerConsumeStats(is_order=only_ordered))
        return BrokerConsumeStats.decode(reply.body)

    async def time_spans(self, group: str, topic: str) -> list[ConsumeTimeSpan]:
        """Return for each queue the timestamps of its first, last and last consumed message."""
        brokers = await self._servers.brokers_of(topic)
        replies = await self._servers.ask_brokers(brokers, b.QueryConsumeTimeSpan(topic=topic, group=group))
        spans = [
            span for reply in replies.values() for span in ConsumeTimeSpans.decode(reply.body).consume_time_span_set
        ]
        return sorted(spans, key=lambda span: span.message_queue)

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """Return the committed offset of a group; None if it has none.

        Brokers before 5.0 return 0 for a group without one, if the queue's first message is still in memory.
        """
        request = o.QueryConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
        )
        try:
            reply = await self._servers.call(await self._servers.address(queue.broker_name), request)
        except QueryNotFound:
            return None
        return reply.fields.offset

    # Changes

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the committed offset of a group. Clients that are online ignore it and may overwrite it."""
        await self._commit(await self._servers.address(queue.broker_name), group, queue, offset)

    async def _commit(self, address: str, group: str, queue: MessageQueue, offset: int) -> None:
        request = o.UpdateConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        reply = await self._servers.call(address, request)
        if reply.remark is not None:
            # A 5.x broker with a pending reset of the group ignores commits (SUCCESS with a remark), but not resets.
            await self._reset_one(address, group, queue, offset)

    async def _reset_one(self, address: str, group: str, queue: MessageQueue, offset: int) -> None:
        request = o.ResetOffset(
            topic=queue.topic, group=group, timestamp=END, is_force=True, queue_id=queue.queue_id, offset=offset
        )
        await self._servers.call(address, request)

    async def reset(
        self,
        group: str,
        topic: str,
        moment: Timestamp,
        *,
        is_forced: bool = True,
        is_online: bool | None = None,
        is_cpp: bool = False,
    ) -> dict[MessageQueue, int]:
        """Reset a group to the first message stored at a timestamp or later; return queue → offset.

        `is_online=True` resets through the connected clients, False sets the committed offsets; by default the latter
        is done where a broker reports that no client is online. Unless `is_forced`, offsets are only moved back.
        `is_cpp` makes brokers use the request format of C++ clients.
        """
        return await self._reset(
            group,
            topic,
            to_millis(moment),
            is_forced=is_forced,
            is_online=is_online,
            language="CPP" if is_cpp else LANGUAGE,
        )

    async def roll_back(self, group: str, topic: str, moment: Timestamp, *, is_forced: bool = True) -> list[Rollback]:
        """Set the committed offsets of an offline group to a timestamp; return the old and new offsets.

        Applies to the queues with offsets or, if there are none, to all. -1 is the end of each queue.
        """
        brokers = await self._servers.brokers_of(topic)
        targets = {name: (name, address) for name, address in brokers.items()}
        found = await self._servers.each(
            "UPDATE_CONSUMER_OFFSET",
            targets,
            lambda it: self._roll_back(*it, group, topic, to_millis(moment), is_forced=is_forced),
        )
        return [rollback for rollbacks in found.values() for rollback in rollbacks]

    async def skip_accumulated(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Reset a group to the end of each queue; return queue → offset."""
        return await self._reset(group, topic, END, is_forced=True, is_online=None, language=LANGUAGE)

    async def _reset(
        self, group: str, topic: str, millis: int, *, is_forced: bool, is_online: bool | None, language: str
    ) -> dict[MessageQueue, int]:
        async def one(broker: tuple[str, str]) -> dict[MessageQueue, int]:
            name, address = broker
            if is_online is not False:
                try:
                    return await self._reset_online(
                        address, group, topic, millis, is_forced=is_forced, language=language
                    )
                except ConsumerNotOnline:
                    if is_online:
                        raise
            return await self._reset_offline(name, address, group, topic, millis, is_forced=is_forced)

        brokers = await self._servers.brokers_of(topic)
        targets = {name: (name, address) for name, address in brokers.items()}
        found: dict[MessageQueue, int] = {}
        for offsets in (await self._servers.each("INVOKE_BROKER_TO_RESET_OFFSET", targets, one)).values():
            found |= offsets
        return dict(sorted(found.items()))

    async def _reset_online(
        self, address: str, group: str, topic: str, millis: int, *, is_forced: bool, language: str
    ) -> dict[MessageQueue, int]:
        request = o.ResetOffset(topic=topic, group=group, timestamp=millis, is_force=is_forced)
        reply = await self._servers.call(address, request, language=language)
        return ResetOffsetBody.decode(reply.body).offset_table if reply.body else {}

    async def _reset_offline(
        self, name: str, address: str, group: str, topic: str, millis: int, *, is_forced: bool
    ) -> dict[MessageQueue, int]:
        known = await self._known(address, group, topic)
        queues = [queue for queue in (await self._servers.route(topic)).read_queues if queue.broker_name == name]

        async def one(queue: MessageQueue) -> int:
            offset = await self._offset_at(address, queue, millis)
            before = known[queue].consumer_offset if queue in known else None
            if before is not None and not is_forced:
                offset = min(offset, before)
            await self._commit(address, group, queue, offset)
            return offset

        offsets = await self._servers.gather(queues, one)
        return dict(zip(queues, offsets, strict=True))

    async def _roll_back(
        self, name: str, address: str, group: str, topic: str, millis: int, *, is_forced: bool
    ) -> list[Rollback]:
        known = {queue: it for queue, it in (await self._known(address, group, topic)).items() if queue.topic == topic}
        before = {queue: (it.broker_offset, it.consumer_offset) for queue, it in known.items()}
        if not before:
            queues = [queue for queue in (await self._servers.route(topic)).read_queues if queue.broker_name == name]
            ends = await self._servers.gather(queues, lambda queue: self._queues.max_at(address, queue))
            starts = await self._servers.gather(queues, lambda queue: self._queues.min_at(address, queue))
            before = dict(zip(queues, zip(ends, starts, strict=True), strict=True))

        async def one(queue: MessageQueue) -> Rollback:
            broker_offset, consumer_offset = before[queue]
            found = await self._offset_at(address, queue, millis)
            if not is_forced and found > consumer_offset:
                return Rollback(queue, broker_offset, consumer_offset, found, consumer_offset)
            await self._commit(address, group, queue, found)
            return Rollback(queue, broker_offset, consumer_offset, found, found)

        return await self._servers.gather(sorted(before), one)

    async def _known(self, address: str, group: str, topic: str) -> dict[MessageQueue, OffsetWrapper]:
        request = b.GetConsumeStats(consumer_group=group, topic=topic)
        return ConsumeStats.decode((await self._servers.call(address, request)).body).offset_table

    async def _offset_at(self, address: str, queue: MessageQueue, millis: int) -> int:
        if millis < 0:
            return await self._queues.max_at(address, queue)
        return await self._queues.search_at(address, queue, millis)

    async def reset_queue(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Reset a group to an offset of one queue.

        5.x brokers notify the clients. On older ones, or without clients, it applies when a client next starts to read
        the queue.
        """
        address = await self._servers.address(queue.broker_name)
        await self._commit(address, group, queue, offset)
        # An older broker would ignore the queue id and reset all queues.
        if await self._servers.version(address) >= Version.V5_0_0:
            try:
                await self._reset_one(address, group, queue, offset)
            except ConsumerNotOnline:
                return

    async def clone(self, source_group: str, target_group: str, topic: str | None = None) -> None:
        """Copy the offsets of a group to another, in one topic or in all with offsets."""
        brokers = await (
            self._servers.brokers_of_group(source_group) if topic is None else self._servers.brokers_of(topic)
        )
        request = o.CloneGroupOffset(src_group=source_group, dest_group=target_group, topic=topic, offline=True)
        await self._servers.ask_brokers(brokers, request)
