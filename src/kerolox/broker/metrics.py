"""What a broker tells Prometheus.

Where messages pass, nothing is counted for it: what the broker's parts count anyway is read when somebody asks.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from kerolox.broker import metric_names as m
from kerolox.broker.clients import Channel, Clients
from kerolox.broker.configuration import Settings
from kerolox.broker.groups import GroupTable, is_system_group
from kerolox.broker.lags import Lags, yes
from kerolox.broker.pop.parts import Pop
from kerolox.broker.samples import Traffic
from kerolox.broker.statistics import Statistics
from kerolox.broker.topics import TopicTable
from kerolox.broker.transactions.counts import TransactionCounts
from kerolox.message.releases import release_name
from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.runtime.exposition import Family, HistogramFamily, Metric, Sample, Series, Told
from kerolox.runtime.files import Disk
from kerolox.runtime.lanes import Lane
from kerolox.runtime.tallies import OTHER, Histogram, Histograms, Labels, Tally
from kerolox.runtime.turns import in_turns
from kerolox.store.store import Store
from kerolox.store.timer.timer import Timer

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
_PUT_OK = ("PUT_OK",)
_ITEMS_AT_ONCE = 500
_SLOTS_AT_ONCE = 5000
# Within how many seconds messages are due, as Java tells apart (TimerMetrics).
_DUE_SECONDS = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)


class BrokerMetrics:
    """Gathers what the parts of a broker know."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
        statistics: Statistics,
        timer: Timer,
        pop: Pop,
        transactions: TransactionCounts,
        lags: Lags,
        lanes: Mapping[str, Lane],
        clock: Clock,
        disk: Disk,
    ) -> None:
        self._settings = settings
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._statistics = statistics
        self._timer = timer
        self._pop = pop
        self._transactions = transactions
        self._lags = lags
        self._lanes = lanes
        self._clock = clock
        self._disk = disk
        series_max = settings.server.metrics_series_max
        self._of_topics, self._of_pairs, self._of_groups = Series(series_max), Series(series_max), Series(series_max)

    async def gather(self) -> list[Told]:
        config = self._settings.broker
        common = {
            "cluster": config.broker_cluster_name,
            "node_type": "broker",
            "node_id": config.broker_name,
            **self._settings.server.extra_labels(),
        }
        found: list[tuple[Metric, list[Sample]]] = [*self._plain(), *self._popping(), *self._connections()]
        found += [part async for part in self._traffic()]
        found += [part async for part in self._tallies()]
        found += await self._lags.gather(self._of_pairs)
        found.append((m.TIMER_SNAPSHOT, await self._due()))
        ratio = await in_thread(self._disk_ratio)
        found.append((m.DISK_RATIO, [((), ratio)]))
        told: list[Told] = [Family(metric, samples, common) for metric, samples in found]
        return told + [HistogramFamily(metric, samples, common) for metric, samples in self._histograms()]

    def _plain(self) -> Iterable[tuple[Metric, list[Sample]]]:
        store, now = self._store, self._clock.millis()
        earliest = store.reader.earliest_log_time()
        has_timer = self._settings.store.timer_wheel_enable
        unentered_since = self._timer.unentered_since if has_timer else 0
        single: dict[Metric, float] = {
            m.PERMISSION: self._settings.broker.broker_permission,
            m.TOPICS: len(self._topics.topics),
            m.GROUPS: len(self._groups.groups),
        }
        of_store: dict[Metric, float] = {
            m.STORED: store.log.end_offset - store.log.first_offset,
            m.FLUSH_BEHIND: max(0, store.log.end_offset - store.flusher.durable_offset),
            m.DISPATCH_BEHIND: max(0, store.log.end_offset - store.dispatcher.offset),
            m.RESERVED: max(0, now - earliest) if earliest > 0 else 0,
            m.TIMER_LAG: self._timer.behind_messages if has_timer else 0,
            m.TIMER_LAG_MILLIS: max(0, now - unentered_since) if unentered_since else 0,
            m.TIMER_MILLIS: self._timer.behind_millis if has_timer else 0,
            m.TIMER_WAITING: self._timer.metrics.waiting,
        }
        for metric, value in single.items():
            yield metric, [((), value)]
        for metric, value in of_store.items():
            yield metric, [(_LOCAL, value)]
        yield m.WATERMARK, [((_PROCESSORS.get(name, name),), lane.under_way) for name, lane in self._lanes.items()]
        latencies = self._statistics.latencies
        yield m.PUT_MILLIS, [((str(share),), latencies.percentile(share)) for share in (0.5, 0.99, 0.999)]
        counts = self._timer.metrics.counts.timing_count
        timing = [((topic,), (topic, *_LOCAL), float(metric.count)) for topic, metric in counts.items()]
        yield m.TIMING, self._of_topics.gauges(timing, (OTHER, *_LOCAL))

    def _popping(self) -> Iterable[tuple[Metric, list[Sample]]]:
        yield m.POP_OFFSETS, [((), len(self._pop.progress))]
        yield m.POP_CHECKPOINTS, [((), self._pop.revive.checkpoints)]
        now = self._clock.millis()
        behind = [((str(queue_id),), count, since) for queue_id, count, since in self._pop.revive.behind()]
        yield m.REVIVE_LAG, [(labels, count) for labels, count, _ in behind]
        yield m.REVIVE_MILLIS, [(labels, max(0, now - since) if since > 0 else 0) for labels, _, since in behind]

    async def _due(self) -> list[Sample]:
        """Returns how many messages are due within each of the bounds, and not within the one before."""
        wheel = self._timer.wheel
        now = self._clock.millis() // wheel.precision * wheel.precision
        due = Histogram(_DUE_SECONDS)
        moments = wheel.due_between(now, now + _DUE_SECONDS[-1] * 1000)
        async for time, count in in_turns(moments, count=_SLOTS_AT_ONCE):
            # A slot belongs to the bound that it begins before.
            due.add((time - now + 1) / 1000, count)
        return [((str(bound), *_LOCAL), count) for bound, count in zip(_DUE_SECONDS, due.counts[:-1], strict=True)]

    async def _tallies(self) -> AsyncIterator[tuple[Metric, list[Sample]]]:
        topics, pairs = (self._of_topics, 1), (self._of_pairs, 2)
        counts, timer = self._pop.counts, self._timer.metrics
        yield m.COMMITTED, await self._tallied(m.COMMITTED, self._transactions.committed, *topics)
        yield m.ROLLED_BACK, await self._tallied(m.ROLLED_BACK, self._transactions.rolled_back, *topics)
        yield m.TIMER_ENTERED, await self._tallied(m.TIMER_ENTERED, timer.entered, *topics, _LOCAL)
        yield m.TIMER_DELIVERED, await self._tallied(m.TIMER_DELIVERED, timer.delivered, *topics, _LOCAL)
        yield m.REVIVE_IN, await self._tallied(m.REVIVE_IN, counts.written, *pairs, _PUT_OK)
        yield m.REVIVE_OUT, await self._tallied(m.REVIVE_OUT, counts.read, *pairs)
        yield m.REVIVED, await self._tallied(m.REVIVED, counts.revived, *pairs, _PUT_OK)

    async def _tallied(
        self, metric: Metric, tally: Tally, series: Series, key_size: int, more: Labels = ()
    ) -> list[Sample]:
        """Returns what was counted by labels, of which the first so many say who has a series."""
        samples: list[Sample] = []
        rest = 0
        async for labels, count in in_turns(list(tally.counts.items()), count=_ITEMS_AT_ONCE):
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
        yield m.TIMER_WAITS, self._by_topic(self._timer.metrics.waits, _LOCAL)
        yield m.PUTS, [((), self._statistics.latencies.histogram())]

    def _by_topic(self, histograms: Histograms, more: Labels = ()) -> list[tuple[Labels, Histogram]]:
        own: list[tuple[Labels, Histogram]] = []
        others = Histogram(histograms.bounds)
        for labels, histogram in histograms.items():
            if labels[0] != OTHER and self._of_topics.is_own(labels):
                own.append(((*labels, *more), histogram))
            else:
                others.merge(histogram)
        return [*own, ((OTHER, *more), others)] if any(others.counts) else own

    def _connections(self) -> Iterable[tuple[Metric, list[Sample]]]:
        producers: Counter[Labels] = Counter()
        for members in self._clients.producers.values():
            producers.update(_client(it) for it in members.values())
        others: Labels = (OTHER, OTHER, _PROTOCOL)
        yield m.PRODUCERS, self._of_groups.gauges(((("", *key), key, n) for key, n in producers.items()), others)
        consumers: Counter[Labels] = Counter()
        for name, group in self._clients.consumers.items():
            mode = _MODES.get(group.consume_type or "", OTHER)
            is_system = yes(is_system_group(name))
            for it in group.channels.values():
                language, version, protocol = _client(it)
                consumers[name, language, version, mode, protocol, is_system] += 1
        others = (OTHER, OTHER, OTHER, OTHER, _PROTOCOL, "false")
        yield m.CONSUMERS, self._of_groups.gauges(((key[:3], key, n) for key, n in consumers.items()), others)

    async def _traffic(self) -> AsyncIterator[tuple[Metric, list[Sample]]]:
        topics, pairs, dead = self._statistics.incoming, self._statistics.outgoing, self._statistics.dead
        by_topic = [((topic,), it) for topic, it in topics.items()]
        counted_in = await self._counted(by_topic, self._of_topics, self._topic_labels)
        counted_out = await self._counted(list(pairs.items()), self._of_pairs, self._out_labels)
        counted_dead = await self._counted(list(dead.items()), self._of_pairs, _dead_labels)
        for metric, (own, others), member in (
            (m.MESSAGES_IN, counted_in, "messages"),
            (m.BYTES_IN, counted_in, "size"),
            (m.MESSAGES_OUT, counted_out, "messages"),
            (m.BYTES_OUT, counted_out, "size"),
            (m.DEAD, counted_dead, "messages"),
        ):
            samples: list[Sample] = [(labels, getattr(it, member)) for labels, it in own]
            series = self._of_topics if metric.labels == m.OF_TOPIC else self._of_pairs
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
        return topic, yes(self._topics.is_system(topic))

    def _out_labels(self, topic: str, group: str) -> Labels:
        return topic, group, yes(self._topics.is_system(topic) or is_system_group(group))

    def _disk_ratio(self) -> float:
        try:
            return self._disk.used_ratio(self._settings.store.commit_log_directory)
        except OSError:
            return -1.0


def _client(channel: Channel) -> tuple[str, str, str]:
    return channel.language.lower(), release_name(channel.version).lower(), _PROTOCOL


def _dead_labels(topic: str, group: str) -> Labels:
    return topic, group, yes(is_system_group(group))


def _others(labels: Labels) -> Labels:
    return tuple("false" if name.startswith("is_") else OTHER for name in labels)
