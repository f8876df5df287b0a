"""What a broker tells Prometheus, under the names of RocketMQ 5.x (BrokerMetricsConstant, DefaultStoreMetricsConstant).

Nothing is counted for it: what the broker's parts count anyway is read when somebody asks.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from kerolox.broker.clients import Channel, Clients
from kerolox.broker.configuration import Settings
from kerolox.broker.groups import GroupTable, is_system_group
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.samples import Traffic
from kerolox.broker.statistics import Statistics
from kerolox.broker.system_topics import DLQ_PREFIX, RETRY_PREFIX
from kerolox.broker.topics import TopicTable
from kerolox.message.releases import release_name
from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.runtime.exposition import OTHER, Family, Kind, Labels, Metric, Sample, Series
from kerolox.runtime.files import Disk
from kerolox.runtime.lanes import Lane
from kerolox.runtime.turns import Turns, in_turns
from kerolox.store.store import Store
from kerolox.store.timer.timer import Timer

_TOPIC = ("topic", "is_system")
_OUT = ("topic", "consumer_group", "is_system")
_PAIR = ("topic", "consumer_group", "is_retry", "is_system")
_STORE = ("storage_type", "storage_medium")
_G, _C = Kind.GAUGE, Kind.COUNTER

PERMISSION = Metric("rocketmq_broker_permission", _G, "What may be done here: 2 is write, 4 is read, 6 is both.")
TOPICS = Metric("rocketmq_topic_number", _G, "Topics of this broker.")
GROUPS = Metric("rocketmq_consumer_group_number", _G, "Consumer groups that this broker knows of.")
WATERMARK = Metric("rocketmq_processor_watermark", _G, "Requests under way, by what answers them.", ("processor",))
MESSAGES_IN = Metric("rocketmq_messages_in_total", _C, "Messages that were stored.", _TOPIC)
MESSAGES_OUT = Metric("rocketmq_messages_out_total", _C, "Messages that consumers were given.", _OUT)
BYTES_IN = Metric("rocketmq_throughput_in_total", _C, "Bytes of messages that were stored.", _TOPIC)
BYTES_OUT = Metric("rocketmq_throughput_out_total", _C, "Bytes of messages that consumers were given.", _OUT)
PRODUCERS = Metric(
    "rocketmq_producer_connections", _G, "Producers that are connected.", ("language", "version", "protocol_type")
)
CONSUMERS = Metric(
    "rocketmq_consumer_connections",
    _G,
    "Consumers that are connected.",
    ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
)
LAG = Metric("rocketmq_consumer_lag_messages", _G, "Messages that a group has not consumed yet.", _PAIR)
LAG_MILLIS = Metric(
    "rocketmq_consumer_lag_latency_milliseconds", _G, "Age of the first of them; 0 if there is none.", _PAIR
)
DEAD = Metric(
    "rocketmq_send_to_dlq_messages_total",
    _C,
    "Messages that went to dead letters, by the topic that they were consumed from.",
    _OUT,
)
STORED = Metric("rocketmq_storage_size_bytes", _G, "Bytes that the commit log holds.", _STORE)
FLUSH_BEHIND = Metric("rocketmq_storage_flush_behind_bytes", _G, "Bytes of the log that are not durable yet.", _STORE)
DISPATCH_BEHIND = Metric("rocketmq_storage_dispatch_behind_bytes", _G, "Bytes that no queue has yet.", _STORE)
RESERVED = Metric(
    "rocketmq_storage_message_reserve_time_milliseconds", _G, "Age of the oldest message of the log.", _STORE
)
TIMER_LAG = Metric("rocketmq_timer_enqueue_lag", _G, "Timer messages that have not been entered yet.", _STORE)
TIMER_MILLIS = Metric(
    "rocketmq_timer_dequeue_latency_milliseconds", _G, "Age of the time up to which all were delivered.", _STORE
)
TIMING = Metric("rocketmq_timing_messages", _G, "Messages that wait for their time.", ("topic", *_STORE))
# Of our own.
DISK_RATIO = Metric("kerolox_disk_used_ratio", _G, "How full the disk of the commit log is, from 0 to 1.")
PUT_MILLIS = Metric(
    "kerolox_put_latency_milliseconds", _G, "How long storing took in the minute before, at most.", ("quantile",)
)

METRICS = (
    *(PERMISSION, TOPICS, GROUPS, WATERMARK, MESSAGES_IN, MESSAGES_OUT, BYTES_IN, BYTES_OUT, PRODUCERS, CONSUMERS, LAG),
    *(LAG_MILLIS, DEAD, STORED, FLUSH_BEHIND, DISPATCH_BEHIND, RESERVED, TIMER_LAG, TIMER_MILLIS, TIMING, DISK_RATIO),
    PUT_MILLIS,
)
# How Java calls them here, where it does not use the name that the lane has.
_PROCESSORS = {
    "litePull": "lite_pull",
    "query": "query_message",
    "clientManager": "client_manager",
    "consumerManager": "consumer_manager",
    "endTransaction": "transaction",
    "loadBalance": "load_balance",
    "default": "admin",
}
# And how it calls these (ConsumeType.getTypeCN).
_MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
# The only values that these labels have here.
_PROTOCOL = "remoting"
_LOCAL = ("local", "disk")
_ITEMS_AT_ONCE = 500
_QUEUES_AT_ONCE = 100


class BrokerMetrics:
    """Gathers what the parts of a broker know."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        statistics: Statistics,
        timer: Timer,
        lanes: Mapping[str, Lane],
        clock: Clock,
        disk: Disk,
    ) -> None:
        self._settings = settings
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._statistics = statistics
        self._timer = timer
        self._lanes = lanes
        self._clock = clock
        self._disk = disk
        series_max = settings.server.metrics_series_max
        self._of_topics, self._of_pairs, self._of_groups = Series(series_max), Series(series_max), Series(series_max)

    async def gather(self) -> list[Family]:
        config = self._settings.broker
        common = {
            "cluster": config.broker_cluster_name,
            "node_type": "broker",
            "node_id": config.broker_name,
            **self._settings.server.extra_labels(),
        }
        found: list[tuple[Metric, list[Sample]]] = [*self._plain(), *self._connections()]
        found += [part async for part in self._traffic()]
        found += [part async for part in self._lags()]
        ratio = await in_thread(self._disk_ratio)
        found.append((DISK_RATIO, [((), ratio)]))
        return [Family(metric, samples, common) for metric, samples in found]

    def _plain(self) -> Iterable[tuple[Metric, list[Sample]]]:
        store, now = self._store, self._clock.millis()
        earliest = store.reader.earliest_log_time()
        has_timer = self._settings.store.timer_wheel_enable
        single: dict[Metric, float] = {
            PERMISSION: self._settings.broker.broker_permission,
            TOPICS: len(self._topics.topics),
            GROUPS: len(self._groups.groups),
        }
        of_store: dict[Metric, float] = {
            STORED: store.log.end_offset - store.log.first_offset,
            FLUSH_BEHIND: max(0, store.log.end_offset - store.flusher.durable_offset),
            DISPATCH_BEHIND: max(0, store.log.end_offset - store.dispatcher.offset),
            RESERVED: max(0, now - earliest) if earliest > 0 else 0,
            TIMER_LAG: self._timer.behind_messages if has_timer else 0,
            TIMER_MILLIS: self._timer.behind_millis if has_timer else 0,
        }
        for metric, value in single.items():
            yield metric, [((), value)]
        for metric, value in of_store.items():
            yield metric, [(_LOCAL, value)]
        yield WATERMARK, [((_PROCESSORS.get(name, name),), lane.under_way) for name, lane in self._lanes.items()]
        latencies = self._statistics.latencies
        yield PUT_MILLIS, [((str(share),), latencies.percentile(share)) for share in (0.5, 0.99, 0.999)]
        counts = self._timer.metrics.counts.timing_count
        timing = [((topic,), (topic, *_LOCAL), float(metric.count)) for topic, metric in counts.items()]
        yield TIMING, self._of_topics.gauges(timing, (OTHER, *_LOCAL))

    def _connections(self) -> Iterable[tuple[Metric, list[Sample]]]:
        producers: Counter[Labels] = Counter()
        for members in self._clients.producers.values():
            producers.update(_client(it) for it in members.values())
        others: Labels = (OTHER, OTHER, _PROTOCOL)
        yield PRODUCERS, self._of_groups.gauges(((("", *key), key, n) for key, n in producers.items()), others)
        consumers: Counter[Labels] = Counter()
        for name, group in self._clients.consumers.items():
            mode = _MODES.get(group.consume_type or "", OTHER)
            is_system = _yes(is_system_group(name))
            for it in group.channels.values():
                language, version, protocol = _client(it)
                consumers[name, language, version, mode, protocol, is_system] += 1
        others = (OTHER, OTHER, OTHER, OTHER, _PROTOCOL, "false")
        yield CONSUMERS, self._of_groups.gauges(((key[:3], key, n) for key, n in consumers.items()), others)

    async def _traffic(self) -> AsyncIterator[tuple[Metric, list[Sample]]]:
        topics, pairs, dead = self._statistics.incoming, self._statistics.outgoing, self._statistics.dead
        by_topic = [((topic,), it) for topic, it in topics.items()]
        counted_in = await self._counted(by_topic, self._of_topics, self._topic_labels)
        counted_out = await self._counted(list(pairs.items()), self._of_pairs, self._out_labels)
        counted_dead = await self._counted(list(dead.items()), self._of_pairs, _dead_labels)
        for metric, (own, others), member in (
            (MESSAGES_IN, counted_in, "messages"),
            (BYTES_IN, counted_in, "size"),
            (MESSAGES_OUT, counted_out, "messages"),
            (BYTES_OUT, counted_out, "size"),
            (DEAD, counted_dead, "messages"),
        ):
            samples: list[Sample] = [(labels, getattr(it, member)) for labels, it in own]
            series = self._of_topics if metric.labels == _TOPIC else self._of_pairs
            rest = series.shared(metric.name, getattr(others, member))
            yield metric, [*samples, (_others(metric.labels), rest)] if rest else samples

    async def _counted(
        self, items: Sequence[tuple[Labels, Traffic]], series: Series, labels: Callable[..., Labels]
    ) -> tuple[list[tuple[Labels, Traffic]], Traffic]:
        """Returns those that are told one by one, and the sum of the others."""
        own: list[tuple[Labels, Traffic]] = []
        others = Traffic()
        async for key, traffic in in_turns(items, count=_ITEMS_AT_ONCE):
            if series.is_own(key):
                own.append((labels(*key), traffic))
            else:
                others.messages += traffic.messages
                others.size += traffic.size
        return own, others

    def _topic_labels(self, topic: str) -> Labels:
        return topic, _yes(self._topics.is_system(topic))

    def _out_labels(self, topic: str, group: str) -> Labels:
        return topic, group, _yes(self._topics.is_system(topic) or is_system_group(group))

    def _pair_labels(self, topic: str, group: str) -> Labels:
        is_system = self._topics.is_system(topic) or is_system_group(group)
        return topic, group, _yes(topic.startswith((RETRY_PREFIX, DLQ_PREFIX))), _yes(is_system)

    async def _lags(self) -> AsyncIterator[tuple[Metric, list[Sample]]]:
        behind: list[Sample] = []
        latest: list[Sample] = []
        rest, has_others = 0, False
        turns = Turns(_QUEUES_AT_ONCE)
        now = self._clock.millis()
        for key in list(self._offsets.table):
            topic, _, group = key.partition("@")
            config = self._topics.get(topic)
            if config is None:
                continue
            is_own = self._of_pairs.is_own((topic, group))
            count, since = 0, now
            for queue_id in range(config.read_queue_nums):
                offset = max(0, self._offsets.get(group, topic, queue_id) or 0)
                lag = self._store.reader.max_offset(topic, queue_id) - offset
                if lag > 0:
                    count += lag
                    # A message is read for it, which is not done for those that are not told one by one.
                    stored = self._store.reader.store_time(topic, queue_id, offset) if is_own else 0
                    since = min(since, stored) if stored > 0 else since
                await turns.step()
            if is_own:
                labels = self._pair_labels(topic, group)
                behind.append((labels, count))
                latest.append((labels, now - since))
            else:
                rest, has_others = rest + count, True
        if has_others:
            behind.append((_others(LAG.labels), rest))
        yield LAG, behind
        yield LAG_MILLIS, latest

    def _disk_ratio(self) -> float:
        try:
            return self._disk.used_ratio(self._settings.store.commit_log_directory)
        except OSError:
            return -1.0


def _client(channel: Channel) -> tuple[str, str, str]:
    return channel.language.lower(), release_name(channel.version).lower(), _PROTOCOL


def _dead_labels(topic: str, group: str) -> Labels:
    return topic, group, _yes(is_system_group(group))


def _yes(fact: bool) -> str:
    return "true" if fact else "false"


def _others(labels: Labels) -> Labels:
    return tuple("false" if name.startswith("is_") else OTHER for name in labels)
