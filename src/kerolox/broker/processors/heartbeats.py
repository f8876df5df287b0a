"""Heartbeats, members of groups, and queue locks (ClientManageProcessor)."""

from collections.abc import Awaitable, Iterable, Sequence

from kerolox.broker.client_limits import check_group, check_locks, check_name
from kerolox.broker.parts import BrokerParts
from kerolox.broker.tables.client_registry import Channel
from kerolox.broker.tables.queue_locks import QueueLocks
from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.errors import SystemFailure
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.cooperative import Turns
from kerolox.runtime.threads import in_thread
from kerolox.wire.bodies.body import REQUEST, Body
from kerolox.wire.bodies.clients import (
    ConsumerData,
    ConsumerList,
    HeartbeatData,
    LockBatch,
    LockedQueues,
    ProducerData,
)
from kerolox.wire.bodies.topics import TopicSysFlag
from kerolox.wire.header import Empty
from kerolox.wire.headers import clients as h
from kerolox.wire.reply import Reply

_LANGUAGE_SIZE_MAX = 32
# A heartbeat of more weight yields to other tasks between groups.
_WEIGHT_AT_ONCE = 1000
# Joining a group takes as long as this many subscriptions.
_GROUP_WEIGHT = 20
# A longer list of locked queues is encoded in a thread.
_LOCKED_SHORT_MAX = 1000


class HeartbeatProcessor:
    def __init__(self, parts: BrokerParts, locks: QueueLocks) -> None:
        self._store_config = parts.settings.store
        self._clients = parts.clients
        self._topics = parts.topics
        self._groups = parts.groups
        self._locks = locks
        self._clock = parts.clock

    @handles(h.HeartBeat, request_queue="heartbeat")
    def heartbeat(self, request: Incoming[h.HeartBeat]) -> Reply[h.HeartbeatTaken] | Awaitable[Reply[h.HeartbeatTaken]]:
        data = HeartbeatData.decode(request.body, REQUEST)
        check_name("client id", data.client_id)
        channel = Channel(
            data.client_id,
            request.connection,
            language_name(request.language),
            request.version,
            self._clock.millis(),
            self._clock.monotonic(),
        )
        groups = [*(data.consumer_data_set or ()), *(data.producer_data_set or ())]
        if sum(map(_weight, groups)) > _WEIGHT_AT_ONCE:
            return self._register_cooperatively(data, groups, channel)
        for group in groups:
            check_group(group)
        return _heartbeat_reply(data, [self._register(data, group, channel) for group in groups])

    async def _register_cooperatively(
        self, data: HeartbeatData, groups: Sequence[ConsumerData | ProducerData], channel: Channel
    ) -> Reply[h.HeartbeatTaken]:
        """Handle a long heartbeat, and yield to other requests between groups."""
        turns = Turns(_WEIGHT_AT_ONCE)
        for group in groups:
            check_group(group)
            await turns.step(_weight(group))
        changes: list[bool] = []
        for group in groups:
            changes.append(self._register(data, group, channel))
            await turns.step(_weight(group))
        return _heartbeat_reply(data, changes)

    def _register(self, data: HeartbeatData, group: ConsumerData | ProducerData, channel: Channel) -> bool:
        """Register the client in a group; return whether a consumer group has changed."""
        if isinstance(group, ProducerData):
            self._clients.register_producer(group.group_name, channel)
            return False
        is_refresh = data.heartbeat_fingerprint != 0 and data.is_without_sub
        return self._prepare(group) and self._clients.register_consumer(group, channel, is_refresh=is_refresh)

    def _prepare(self, consumer: ConsumerData) -> bool:
        """Create the retry topic of a group; False if the group does not exist and may not be created.

        A slave gets the topic from its master.
        """
        group = self._groups.get(consumer.group_name)
        if group is None:
            return False
        topic = RETRY_PREFIX + consumer.group_name
        if self._topics.get(topic) is None and not self._store_config.is_slave:
            subscribed = [self._topics.get(data.topic) for data in consumer.subscription_data_set or []]
            sys_flag = int(TopicSysFlag.UNIT_SUB) if consumer.unit_mode else 0
            is_ordered = any(config is not None and config.order for config in subscribed)
            self._topics.create(topic, group.retry_queue_nums, sys_flag=sys_flag, is_ordered=is_ordered)
        return True

    @handles(h.UnregisterClient, request_queue="clientManager")
    def unregister(self, request: Incoming[h.UnregisterClient]) -> Reply[Empty]:
        self._clients.unregister(request.connection, request.header.producer_group, request.header.consumer_group)
        return Reply()

    @handles(h.GetConsumerListByGroup, request_queue="consumerManager")
    def members(self, request: Incoming[h.GetConsumerListByGroup]) -> Reply[Empty]:
        group = self._clients.consumers.get(request.header.consumer_group)
        if group is None:
            raise SystemFailure(f"no consumer for this group, {request.header.consumer_group}")
        return Reply(None, ConsumerList(group.client_ids).encode())

    @handles(h.LockBatchMq)
    def lock(self, request: Incoming[h.LockBatchMq]) -> Reply[Empty] | Awaitable[Reply[Empty]]:
        batch = LockBatch.decode(request.body, REQUEST)
        check_locks(batch)
        owned = LockedQueues(self._locks.lock(batch.consumer_group, batch.client_id, batch.mq_set))
        return Reply(None, owned.encode()) if len(batch.mq_set) <= _LOCKED_SHORT_MAX else _long_reply(owned)

    @handles(h.UnlockBatchMq)
    def unlock(self, request: Incoming[h.UnlockBatchMq]) -> Reply[Empty]:
        batch = LockBatch.decode(request.body, REQUEST)
        check_locks(batch)
        self._locks.unlock(batch.consumer_group, batch.client_id, batch.mq_set)
        return Reply()


def _heartbeat_reply(data: HeartbeatData, changes: Iterable[bool]) -> Reply[h.HeartbeatTaken]:
    is_changed = any(changes) if data.heartbeat_fingerprint else True
    return Reply(h.HeartbeatTaken(is_support_heart_beat_v2=True, is_sub_change=is_changed))


def _weight(group: ConsumerData | ProducerData) -> int:
    """Return roughly how long a group takes to register, in units of one subscription."""
    return _GROUP_WEIGHT + (len(group.subscription_data_set or ()) if isinstance(group, ConsumerData) else 0)


async def _long_reply(body: Body) -> Reply[Empty]:
    return Reply(None, await in_thread(body.encode))


def language_name(language: str | int | None) -> str:
    return language if isinstance(language, str) and len(language) <= _LANGUAGE_SIZE_MAX else "OTHER"
