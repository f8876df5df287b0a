"""Heartbeats, members of groups, and locks."""

from kerolox.broker.bounds import check_heartbeat, check_locks
from kerolox.broker.clients import Channel, Clients
from kerolox.broker.groups import GroupTable
from kerolox.broker.locks import QueueLocks
from kerolox.broker.system_topics import RETRY_PREFIX
from kerolox.broker.topics import TopicTable
from kerolox.errors import SystemFailure
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.clients import ConsumerData, ConsumerList, HeartbeatData, LockBatch, LockedQueues
from kerolox.wire.bodies.topics import TopicSysFlag
from kerolox.wire.header import Empty
from kerolox.wire.headers import clients as h
from kerolox.wire.reply import Reply

_LANGUAGE_SIZE_MAX = 32


class ClientProcessor:
    def __init__(
        self, clients: Clients, topics: TopicTable, groups: GroupTable, locks: QueueLocks, clock: Clock
    ) -> None:
        self._clients = clients
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._clock = clock

    @handles(h.HeartBeat, lane="heartbeat")
    def heartbeat(self, request: Incoming[h.HeartBeat]) -> Reply[h.HeartbeatTaken]:
        data = HeartbeatData.decode(request.body)
        check_heartbeat(data)
        is_light = data.heartbeat_fingerprint != 0
        channel = Channel(
            data.client_id,
            request.connection,
            language_name(request.language),
            request.version,
            self._clock.millis(),
        )
        is_changed = False
        for consumer in data.consumer_data_set or []:
            if self._prepare(consumer):
                is_refresh = is_light and data.is_without_sub
                is_changed |= self._clients.consume(consumer, channel, is_refresh=is_refresh)
        for producer in data.producer_data_set or []:
            self._clients.produce(producer.group_name, channel)
        return Reply(h.HeartbeatTaken(is_support_heart_beat_v2=True, is_sub_change=is_changed if is_light else True))

    def _prepare(self, consumer: ConsumerData) -> bool:
        """Makes what a group needs; False if the group may not be."""
        group = self._groups.get(consumer.group_name)
        if group is None:
            return False
        topic = RETRY_PREFIX + consumer.group_name
        if self._topics.get(topic) is None:
            subscribed = [self._topics.get(wanted.topic) for wanted in consumer.subscription_data_set or []]
            sys_flag = int(TopicSysFlag.UNIT_SUB) if consumer.unit_mode else 0
            is_ordered = any(config is not None and config.order for config in subscribed)
            self._topics.create(topic, group.retry_queue_nums, sys_flag=sys_flag, is_ordered=is_ordered)
        return True

    @handles(h.UnregisterClient, lane="clientManager")
    def unregister(self, request: Incoming[h.UnregisterClient]) -> Reply[Empty]:
        self._clients.leave(request.connection, request.header.producer_group, request.header.consumer_group)
        return Reply()

    @handles(h.GetConsumerListByGroup, lane="consumerManager")
    def members(self, request: Incoming[h.GetConsumerListByGroup]) -> Reply[Empty]:
        group = self._clients.consumers.get(request.header.consumer_group)
        if group is None:
            raise SystemFailure(f"no consumer for this group, {request.header.consumer_group}")
        return Reply(None, ConsumerList(group.client_ids).encode())

    @handles(h.LockBatchMq)
    def lock(self, request: Incoming[h.LockBatchMq]) -> Reply[Empty]:
        batch = LockBatch.decode(request.body)
        check_locks(batch)
        owned = self._locks.lock(batch.consumer_group, batch.client_id, batch.mq_set)
        return Reply(None, LockedQueues(owned).encode())

    @handles(h.UnlockBatchMq)
    def unlock(self, request: Incoming[h.UnlockBatchMq]) -> Reply[Empty]:
        batch = LockBatch.decode(request.body)
        self._locks.unlock(batch.consumer_group, batch.client_id, batch.mq_set)
        return Reply()


def language_name(language: str | int | None) -> str:
    return language if isinstance(language, str) and len(language) <= _LANGUAGE_SIZE_MAX else "OTHER"
