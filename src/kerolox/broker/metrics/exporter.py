"""Exports the broker's metrics to Prometheus (BrokerMetricsManager).

The hot paths count nothing for it: a scrape reads the counters that the broker needs anyway.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from kerolox.broker.metrics import names as m
from kerolox.broker.metrics.consumer_lag import ConsumerLag, bool_label
from kerolox.broker.metrics.windows import Traffic
from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.assembly import Pop
from kerolox.broker.replication.replication import Replication
from kerolox.broker.tables.client_registry import Channel
from kerolox.broker.tables.groups import is_system_group
from kerolox.broker.transactions.metrics import TransactionMetrics
from kerolox.message.client_versions import release_name
from kerolox.runtime.cooperative import in_turns
from kerolox.runtime.metrics.counters import OTHER, Histogram, Histograms, LabelCounter, Labels
from kerolox.runtime.metrics.prometheus import Family, HistogramFamily, Metric, MetricFamily, Sample, Series
from kerolox.runtime.threads import in_thread

# The value of the label `processor`, where Java's differs from the name of the request queue.
_PROCESSOR_LABELS = {
    "litePull": "lite_pull",
    "query": "query_message",
    "clientManager": "client_manager",
    "consumerManager": "consumer_manager",
    "endTransaction": "transaction",
    "loadBalance": "load_balance",
    "default": "admin",
}
# Values of the label `consume_mode` (ConsumeType.getTypeCN).
_CONSUME_MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
# Labels with a single value here: protocol_type; storage_type and storage_medium; put_status.
_PROTOCOL = "remoting"
_LOCAL = ("local", "disk")
_PUT_OK = ("PUT_OK",)
# How much is visited in one iteration of the event loop.
_ITEMS_PER_ITERATION = 500
_SLOTS_PER_ITERATION = 5000
# Bounds of rocketmq_timer_message_snapshot, as in Java's TimerMetrics.
_DUE_SECONDS = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)


class BrokerMetrics:
    """Reads all metrics of a broker when it is scraped.

    A limited number of topics, pairs of topic and group, and groups have series of their own; see Series.
    """

    def __init__(
        self, parts: BrokerParts, pop: Pop, transactions: TransactionMetrics, replication: Replication
    ) -> None:
        self._replication = replication
        self._settings = parts.settings
        self._store = parts.store
        self._timer = parts.timer
        self._topics = parts.topics
        self._groups = parts.groups
        self._clients = parts.clients
        self._statistics = parts.statistics
        self._request_queues = parts.request_queues
        self._clock = parts.clock
        self._disk = parts.disk
        self._pop = pop
        self._transactions = transactions
        self._consumer_lag = ConsumerLag(parts, pop)
        series_max = parts.settings.server.metrics_series_max
        self._topic_series, self._pair_series = Series(series_max), Series(series_max)
        self._group_series = Series(series_max)

    async def gather(self) -> list[MetricFamily]:
        """Return all metrics with their current values."""
        config = self._settings.broker
        common = {
            "cluster": config.broker_cluster_name,
            "node_type": "broker",
            "node_id": config.broker_name,
            **self._settings.server.extra_labels(),
        }
        found: list[tuple[Metric, list[Sample]]] = [*self._gauges(), *self._pop_gauges(), *self._connections()]
        found += self._replication_gauges()
        found += [item async for item in self._traffic()]
        found += [item async for item in self._label_counters()]
        found += await self._consumer_lag.gather(self._pair_series)
        found.append((m.TIMER_SNAPSHOT, await self._timer_snapshot()))
        ratio = await in_thread(self._disk_ratio)
        found.append((m.DISK_RATIO, [((), ratio)]))
        families: list[MetricFamily] = [Family(metric, samples, common) for metric, samples in found]
        return families + [HistogramFamily(metric, samples, common) for metric, samples in self._histograms()]

    def _gauges(self) -> Iterable[tuple[Metric, list[Sample]]]:
        store, now = self._store, self._clock.millis()
        earliest = store.reader.earliest_log_time()
        has_timer = self._settings.store.timer_wheel_enable
        unentered_since = self._timer.not_enqueued_since if has_timer else 0
        unlabelled: dict[Metric, float] = {
            m.PERMISSION: self._settings.broker.broker_permission,
            m.TOPICS: len(self._topics.topics),
            m.GROUPS: len(self._groups.groups),
        }
        by_storage: dict[Metric, float] = {
            m.STORAGE_SIZE: store.log.end_offset - store.log.first_offset,
            m.FLUSH_BEHIND: max(0, store.log.end_offset - store.flusher.durable_offset),
            m.DISPATCH_BEHIND: max(0, store.log.end_offset - store.dispatcher.offset),
            m.RESERVE_MILLIS: max(0, now - earliest) if earliest > 0 else 0,
            m.TIMER_ENQUEUE_LAG: self._timer.behind_messages if has_timer else 0,
            m.TIMER_ENQUEUE_MILLIS: max(0, now - unentered_since) if unentered_since else 0,
            m.TIMER_DEQUEUE_MILLIS: self._timer.behind_millis if has_timer else 0,
            m.TIMER_DEQUEUE_LAG: self._timer.metrics.pending_count,
        }
        for metric, value in unlabelled.items():
            yield metric, [((), value)]
        for metric, value in by_storage.items():
            yield metric, [(_LOCAL, value)]
        yield (
            m.WATERMARK,
            [((_PROCESSOR_LABELS.get(name, name),), queue.under_way) for name, queue in self._request_queues.items()],
        )
        latencies = self._statistics.put_latencies
        yield m.PUT_PERCENTILES, [((str(share),), latencies.percentile(share)) for share in (0.5, 0.99, 0.999)]
        counts = self._timer.metrics.counts.timing_count
        timing = [((topic,), (topic, *_LOCAL), float(metric.count)) for topic, metric in counts.items()]
        yield m.TIMING, self._topic_series.gauges(timing, (OTHER, *_LOCAL))

    def _replication_gauges(self) -> Iterable[tuple[Metric, list[Sample]]]:
        yield m.ROLE, [((self._settings.store.broker_role.value,), 1)]
        server, log_copy = self._replication.server, self._replication.log_copy
        slaves = [] if server is None else server.status()
        yield m.REPLICA_LAG, [((slave.addr,), slave.diff) for slave in slaves]
        in_sync = sum(slave.in_sync for slave in slaves)
        yield m.REPLICAS_IN_SYNC, [] if server is None else [((), in_sync)]
        yield m.REPLICATION_CONNECTED, [] if log_copy is None else [((), log_copy.status().activated)]
        copied_at = self._replication.metadata_copy.copied_at
        yield m.METADATA_AGE, [] if copied_at is None else [((), self._clock.monotonic() - copied_at)]

    def _pop_gauges(self) -> Iterable[tuple[Metric, list[Sample]]]:
        yield m.POP_OFFSETS, [((), len(self._pop.offsets))]
        yield m.POP_CHECKPOINTS, [((), self._pop.revive.checkpoints)]
        now = self._clock.millis()
        behind = [((str(queue_id),), count, since) for queue_id, count, since in self._pop.revive.behind()]
        yield m.REVIVE_LAG, [(labels, count) for labels, count, _ in behind]
        yield m.REVIVE_MILLIS, [(labels, max(0, now - since) if since > 0 else 0) for labels, _, since in behind]

    async def _timer_snapshot(self) -> list[Sample]:
        """Return how many messages are due between each bound and the one before."""
        wheel = self._timer.wheel
        now = self._clock.millis() // wheel.precision * wheel.precision
        due = Histogram(_DUE_SECONDS)
        slots = wheel.due_between(now, now + _DUE_SECONDS[-1] * 1000)
        async for time, count in in_turns(slots, count=_SLOTS_PER_ITERATION):
            # A slot that starts exactly at a bound belongs to the next one.
            due.add((time - now + 1) / 1000, count)
        return [((str(bound), *_LOCAL), count) for bound, count in zip(_DUE_SECONDS, due.counts[:-1], strict=True)]

    async def _label_counters(self) -> AsyncIterator[tuple[Metric, list[Sample]]]:
        transactions, timer, pop = self._transactions, self._timer.metrics, self._pop.metrics
        by_topic: list[tuple[Metric, LabelCounter, Labels]] = [
            (m.COMMITTED, transactions.committed, ()),
            (m.ROLLED_BACK, transactions.rolled_back, ()),
            (m.TIMER_ENQUEUED, timer.enqueued, _LOCAL),
            (m.TIMER_DEQUEUED, timer.delivered, _LOCAL),
        ]
        by_pair: list[tuple[Metric, LabelCounter, Labels]] = [
            (m.REVIVE_IN, pop.written, _PUT_OK),
            (m.REVIVE_OUT, pop.read, ()),
            (m.REVIVED, pop.revived, _PUT_OK),
        ]
        for metric, counter, more in by_topic:
            yield metric, await self._counter_samples(metric, counter, self._topic_series, 1, more)
        for metric, counter, more in by_pair:
            yield metric, await self._counter_samples(metric, counter, self._pair_series, 2, more)

    async def _counter_samples(
        self, metric: Metric, counter: LabelCounter, series: Series, key_size: int, more: Labels
    ) -> list[Sample]:
        """Return the samples of a counter; its first `key_size` labels are the key in `series`.

        `more` are constant labels that are not part of the counter.
        """
        samples: list[Sample] = []
        rest = 0
        async for labels, count in in_turns(list(counter.counts.items()), count=_ITEMS_PER_ITERATION):
            if labels[0] != OTHER and series.is_own(labels[:key_size]):
                samples.append(((*labels, *more), count))
            else:
                rest += count
        shared = series.shared(metric.name, rest)
        others = (OTHER,) * (len(metric.labels) - len(more))
        return [*samples, ((*others, *more), shared)] if shared else samples

    def _histograms(self) -> Iterable[tuple[Metric, list[tuple[Labels, Histogram]]]]:
        yield m.TOPIC_CREATION, list(self._topics.creation_times.items())
        yield m.GROUP_CREATION, list(self._groups.creation_times.items())
        yield m.FINISH_SECONDS, self._by_topic(self._transactions.seconds)
        yield m.TIMER_DELAYS, self._by_topic(self._timer.metrics.waits, _LOCAL)
        yield m.PUT_LATENCY, [((), self._statistics.put_latencies.histogram())]

    def _by_topic(self, histograms: Histograms, more: Labels = ()) -> list[tuple[Labels, Histogram]]:
        own: list[tuple[Labels, Histogram]] = []
        others = Histogram(histograms.bounds)
        for labels, histogram in histograms.items():
            if labels[0] != OTHER and self._topic_series.is_own(labels):
                own.append(((*labels, *more), histogram))
            else:
                others.merge(histogram)
        return [*own, ((OTHER, *more), others)] if any(others.counts) else own

    def _connections(self) -> Iterable[tuple[Metric, list[Sample]]]:
        producers: Counter[Labels] = Counter()
        for members in self._clients.producers.values():
            producers.update(_client_labels(channel) for channel in members.values())
        others: Labels = (OTHER, OTHER, _PROTOCOL)
        samples = ((("", *labels), labels, count) for labels, count in producers.items())
        yield m.PRODUCERS, self._group_series.gauges(samples, others)
        consumers: Counter[Labels] = Counter()
        for name, group in self._clients.consumers.items():
            mode = _CONSUME_MODES.get(group.consume_type or "", OTHER)
            is_system = bool_label(is_system_group(name))
            for channel in group.channels.values():
                language, version, protocol = _client_labels(channel)
                consumers[name, language, version, mode, protocol, is_system] += 1
        others = (OTHER, OTHER, OTHER, OTHER, _PROTOCOL, "false")
        samples = ((labels[:3], labels, count) for labels, count in consumers.items())
        yield m.CONSUMERS, self._group_series.gauges(samples, others)

    async def _traffic(self) -> AsyncIterator[tuple[Metric, list[Sample]]]:
        statistics = self._statistics
        by_topic: list[tuple[Labels, Traffic]] = [((topic,), it) for topic, it in statistics.incoming.items()]
        by_pair, by_dlq_pair = list(statistics.outgoing.items()), list(statistics.dead_letters.items())
        incoming = await self._split_by_series(by_topic, self._topic_series, self._topic_labels)
        outgoing = await self._split_by_series(by_pair, self._pair_series, self._pair_labels)
        dead_letters = await self._split_by_series(by_dlq_pair, self._pair_series, _dead_letter_labels)
        for metric, (own, others), member in (
            (m.MESSAGES_IN, incoming, "messages"),
            (m.BYTES_IN, incoming, "size"),
            (m.MESSAGES_OUT, outgoing, "messages"),
            (m.BYTES_OUT, outgoing, "size"),
            (m.DEAD_LETTERS, dead_letters, "messages"),
        ):
            samples: list[Sample] = [(labels, getattr(it, member)) for labels, it in own]
            series = self._topic_series if metric.labels == m.TOPIC_LABELS else self._pair_series
            rest = series.shared(metric.name, getattr(others, member))
            yield metric, [*samples, (_other_labels(metric.labels), rest)] if rest else samples

    async def _split_by_series(
        self, items: Sequence[tuple[Labels, Traffic]], series: Series, labels: Callable[..., Labels]
    ) -> tuple[list[tuple[Labels, Traffic]], Traffic]:
        """Return the counters that have a series of their own, with their labels, and the sum of the others."""
        own: list[tuple[Labels, Traffic]] = []
        others = Traffic()
        async for key, traffic in in_turns(items, count=_ITEMS_PER_ITERATION):
            if series.is_own(key):
                own.append((labels(*key), traffic))
            else:
                others.messages += traffic.messages
                others.size += traffic.size
        return own, others

    def _topic_labels(self, topic: str) -> Labels:
        return topic, bool_label(self._topics.is_system(topic))

    def _pair_labels(self, topic: str, group: str) -> Labels:
        return topic, group, bool_label(self._topics.is_system(topic) or is_system_group(group))

    def _disk_ratio(self) -> float:
        try:
            return self._disk.used_ratio(self._settings.store.commit_log_directory)
        except OSError:
            return -1.0


def _client_labels(channel: Channel) -> tuple[str, str, str]:
    return channel.language.lower(), release_name(channel.version).lower(), _PROTOCOL


def _dead_letter_labels(topic: str, group: str) -> Labels:
    return topic, group, bool_label(is_system_group(group))


def _other_labels(labels: Labels) -> Labels:
    return tuple("false" if name.startswith("is_") else OTHER for name in labels)
