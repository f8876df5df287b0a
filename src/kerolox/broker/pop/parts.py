"""Popping put together from its parts."""

from pathlib import Path

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.groups import GroupTable
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.pop.acks import Acks
from kerolox.broker.pop.checkpoints import ReviveLog
from kerolox.broker.pop.counts import PopCounts
from kerolox.broker.pop.inflight import Inflight
from kerolox.broker.pop.orders import Orders
from kerolox.broker.pop.peeking import Peeking
from kerolox.broker.pop.polling import Polling
from kerolox.broker.pop.popping import Popping
from kerolox.broker.pop.progress import Progress
from kerolox.broker.pop.revive import Revive
from kerolox.broker.pop.taking import Taking
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing
from kerolox.broker.system_topics import revive_topic
from kerolox.broker.topics import TopicTable
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.store import Store
from kerolox.store.timer.timer import Timer


class Pop:
    """What the processor needs, and the services: `orders.file` and `revive`."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        storing: Storing,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        timer: Timer,
        statistics: Statistics,
        disk: Disk,
        directory: Path,
        clock: Clock,
    ) -> None:
        self.revive_log = ReviveLog(revive_topic(config), config.broker_name, clock.millis)
        self.revive_log.host = lambda: storing.store_host
        self.progress = Progress(offsets, lambda: store.flusher.durable_offset)
        self.orders = Orders(config, disk, directory, clock)
        self.inflight = Inflight(clock.millis())
        self.taking = Taking(config, store, topics, offsets, self.progress, self.orders, self.inflight, clock)
        self.counts = PopCounts()
        self.popping = Popping(config, self.taking, storing, self.progress, self.inflight, self.revive_log, self.counts)
        self.peeking = Peeking(config, store, topics, self.progress, self.orders, self.taking)
        self.acks = Acks(
            config,
            store,
            topics,
            groups,
            offsets,
            storing,
            self.orders,
            self.inflight,
            self.revive_log,
            self.popping,
            statistics,
            self.counts,
            clock,
        )
        self.revive = Revive(
            *(config, store, topics, groups, offsets, self.progress, self.inflight, self.revive_log, timer),
            *(statistics, self.counts, clock),
        )
        self.polling = self._polling(config, store)
        self.notifying = self._polling(config, store)

    @staticmethod
    def _polling(config: BrokerConfig, store: Store) -> Polling:
        size_max = min(config.max_pop_polling_size, config.pop_polling_map_size)
        return Polling(store.arrivals, queue_size_max=config.pop_polling_size, size_max=size_max)
