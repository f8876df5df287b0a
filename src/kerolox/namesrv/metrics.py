"""What a NameServer tells Prometheus. The original's tells nothing, so that the names are ours."""

from collections import Counter

from kerolox.namesrv.configuration import NamesrvConfig
from kerolox.namesrv.route_table import RouteTable
from kerolox.remoting.server import Server
from kerolox.runtime.exposition import Family, Kind, Metric, Sample, Series, Told
from kerolox.runtime.tallies import OTHER

BROKERS = Metric("kerolox_namesrv_brokers", Kind.GAUGE, "Brokers that are registered.", ("broker_cluster",))
TOPICS = Metric("kerolox_namesrv_topics", Kind.GAUGE, "Topics that have a route.")
CONNECTIONS = Metric("kerolox_namesrv_connections", Kind.GAUGE, "Connections of brokers, clients and tools.")

METRICS = (BROKERS, TOPICS, CONNECTIONS)


class NameServerMetrics:
    """Reads the route table when somebody asks."""

    def __init__(self, config: NamesrvConfig, table: RouteTable, server: Server) -> None:
        self._config = config
        self._table = table
        self._server = server
        self._clusters = Series(config.metrics_series_max)

    async def gather(self) -> list[Told]:
        common = {"node_type": "nameserver", "node_id": self._server.address, **self._config.extra_labels()}
        clusters = Counter(where.cluster for where in self._table.live)
        brokers = self._clusters.gauges((((name,), (name,), count) for name, count in clusters.items()), (OTHER,))
        found: dict[Metric, list[Sample]] = {
            BROKERS: brokers,
            TOPICS: [((), len(self._table.topics))],
            CONNECTIONS: [((), self._server.connections)],
        }
        return [Family(metric, samples, common) for metric, samples in found.items()]
