"""Prometheus metrics of the NameServer. RocketMQ's NameServer has none, so the names are our own."""

from collections import Counter

from kerolox.namesrv.config import NamesrvConfig
from kerolox.namesrv.route_table import RouteTable
from kerolox.remoting.server.server import Server
from kerolox.runtime.metrics.counters import OTHER
from kerolox.runtime.metrics.prometheus import Family, Kind, Metric, MetricFamily, Sample, Series

BROKERS = Metric("kerolox_namesrv_brokers", Kind.GAUGE, "Registered brokers.", ("broker_cluster",))
TOPICS = Metric("kerolox_namesrv_topics", Kind.GAUGE, "Topics that have a route.")
CONNECTIONS = Metric("kerolox_namesrv_connections", Kind.GAUGE, "Connections of brokers, clients and tools.")

METRICS = (BROKERS, TOPICS, CONNECTIONS)


class NameServerMetrics:
    """Reads the route table for every scrape."""

    def __init__(self, config: NamesrvConfig, table: RouteTable, server: Server) -> None:
        self._config = config
        self._table = table
        self._server = server
        self._clusters = Series(config.metrics_series_max)

    async def gather(self) -> list[MetricFamily]:
        common = {"node_type": "nameserver", "node_id": self._server.address, **self._config.extra_labels()}
        clusters = Counter(broker.cluster for broker in self._table.live)
        brokers = self._clusters.gauges((((name,), (name,), count) for name, count in clusters.items()), (OTHER,))
        found: dict[Metric, list[Sample]] = {
            BROKERS: brokers,
            TOPICS: [((), len(self._table.topics))],
            CONNECTIONS: [((), self._server.connections)],
        }
        return [Family(metric, samples, common) for metric, samples in found.items()]
