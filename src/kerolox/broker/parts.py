"""The objects that the processors and services of a broker share."""

from dataclasses import dataclass
from pathlib import Path

from kerolox.broker.config import BrokerConfig, Settings
from kerolox.broker.metrics.counters import BrokerStats
from kerolox.broker.pull.slow_consumers import SlowConsumers
from kerolox.broker.registration.requests import BrokerAddresses
from kerolox.broker.send.put import MessagePut
from kerolox.broker.tables.client_registry import ClientRegistry
from kerolox.broker.tables.consumer_filters import ConsumerFilters
from kerolox.broker.tables.groups import GroupTable
from kerolox.broker.tables.offsets import ConsumerOffsets
from kerolox.broker.tables.topics import TopicTable
from kerolox.remoting.connection import flush_waiting
from kerolox.replication.replica_acks import ReplicaAcks
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.runtime.request_queue import RequestQueue
from kerolox.store.config import BrokerRole
from kerolox.store.delay.schedule import ScheduledDelivery
from kerolox.store.store import Store, StoreHooks
from kerolox.store.timer.timer import Timer


@dataclass(frozen=True)
class BrokerParts:
    """Passed to processors and services, so that their constructors stay short. No part refers to a processor."""

    settings: Settings
    clock: Clock
    disk: Disk

    store: Store
    delivery: ScheduledDelivery
    timer: Timer
    message_put: MessagePut

    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    filters: ConsumerFilters
    clients: ClientRegistry

    statistics: BrokerStats
    slow_consumers: SlowConsumers
    # By the name that processors declare with `@handles`.
    request_queues: dict[str, RequestQueue]
    # Filled in when the listening port is known.
    addresses: BrokerAddresses

    @property
    def config(self) -> BrokerConfig:
        return self.settings.broker

    @property
    def config_directory(self) -> Path:
        """Where the tables are saved."""
        return self.settings.store.store_path_root_dir / "config"


def build_parts(settings: Settings, clock: Clock, disk: Disk) -> BrokerParts:
    """Create the store and the tables; nothing is read or written before they are opened."""
    config = settings.broker
    directory = settings.store.store_path_root_dir / "config"
    filters = ConsumerFilters(config, disk, directory, clock)
    if config.enable_calc_filter_bit_map:
        settings.store.bit_map_length_consume_queue_ext = filters.bloom.bit_count
    hooks = StoreHooks(
        on_acknowledged=flush_waiting,
        append_timeout_seconds=lambda: config.wait_time_mills_in_send_queue / 1000,
        bit_map=filters.bit_map_of if config.enable_calc_filter_bit_map else None,
        copies=ReplicaAcks(settings.replication) if settings.store.broker_role is BrokerRole.SYNC_MASTER else None,
        is_copy=settings.store.is_slave,
    )
    store = Store(settings.store, clock=clock, disk=disk, hooks=hooks)
    delivery = ScheduledDelivery(store, clock=clock, disk=disk)
    timer = Timer(store, clock=clock, disk=disk)
    topics = TopicTable(config, disk, directory, clock)
    groups = GroupTable(config, disk, directory, clock)

    def is_notified(group: str) -> bool:
        known = groups.groups.get(group)
        is_wanted = known is None or known.notify_consumer_ids_changed_enable
        return is_wanted and config.notify_consumer_ids_changed_enable

    return BrokerParts(
        settings=settings,
        clock=clock,
        disk=disk,
        store=store,
        delivery=delivery,
        timer=timer,
        message_put=MessagePut(store, timer.divert),
        topics=topics,
        groups=groups,
        offsets=ConsumerOffsets(config, disk, directory, clock),
        filters=filters,
        clients=ClientRegistry(
            config, clock, is_notified=is_notified, on_subscribed=filters.subscribe, on_left=filters.leave
        ),
        statistics=BrokerStats(config.broker_cluster_name, topics.is_system, clock),
        slow_consumers=SlowConsumers(config, store, groups, clock),
        request_queues=build_request_queues(config),
        addresses=BrokerAddresses("", ""),
    )


def build_request_queues(config: BrokerConfig) -> dict[str, RequestQueue]:
    """Return the request queues by the names that processors use, with the capacities of Java's thread pool queues.

    Only requests that have to wait are counted.
    """
    capacities = {
        "send": config.send_thread_pool_queue_capacity,
        "pull": config.pull_thread_pool_queue_capacity,
        "litePull": config.lite_pull_thread_pool_queue_capacity,
        "ack": config.ack_thread_pool_queue_capacity,
        "reply": config.reply_thread_pool_queue_capacity,
        "query": config.query_thread_pool_queue_capacity,
        "heartbeat": config.heartbeat_thread_pool_queue_capacity,
        "clientManager": config.client_manager_thread_pool_queue_capacity,
        "consumerManager": config.consumer_manager_thread_pool_queue_capacity,
        "endTransaction": config.end_transaction_pool_queue_capacity,
        "loadBalance": config.load_balance_thread_pool_queue_capacity,
        # For processors that name no queue.
        "default": config.admin_broker_thread_pool_queue_capacity,
    }
    return {name: RequestQueue(name, capacity) for name, capacity in capacities.items()}
