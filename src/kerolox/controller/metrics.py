"""Prometheus metrics of the controller."""

from kerolox.controller.config import ControllerConfig
from kerolox.controller.groups import BrokerGroups
from kerolox.controller.leadership import LeadershipService
from kerolox.controller.liveness import Liveness
from kerolox.remoting.server.server import Server
from kerolox.runtime.metrics.prometheus import Family, Kind, Metric, MetricFamily

LEADER = Metric("kerolox_controller_leader", Kind.GAUGE, "1 if this controller leads, else 0.")
GROUPS = Metric("kerolox_controller_broker_groups", Kind.GAUGE, "Broker groups.")
WITHOUT_MASTER = Metric(
    "kerolox_controller_broker_groups_without_master", Kind.GAUGE, "Broker groups without a master."
)
BROKERS = Metric("kerolox_controller_living_brokers", Kind.GAUGE, "Brokers with a heartbeat in time.")
CONNECTIONS = Metric("kerolox_controller_connections", Kind.GAUGE, "Connections of brokers and tools.")

METRICS = (LEADER, GROUPS, WITHOUT_MASTER, BROKERS, CONNECTIONS)


class ControllerMetrics:
    """Reads the tables for every scrape."""

    def __init__(
        self,
        config: ControllerConfig,
        groups: BrokerGroups,
        liveness: Liveness,
        leadership: LeadershipService,
        server: Server,
    ) -> None:
        self._config = config
        self._groups = groups
        self._liveness = liveness
        self._leadership = leadership
        self._server = server

    async def gather(self) -> list[MetricFamily]:
        common = {"node_type": "controller", "node_id": self._server.address, **self._config.extra_labels()}
        groups = [group for group in self._groups.all.values() if group.exists]
        found = {
            LEADER: int(self._leadership.current.is_leader),
            GROUPS: len(groups),
            WITHOUT_MASTER: sum(group.master is None for group in groups),
            BROKERS: self._liveness.count,
            CONNECTIONS: self._server.connections,
        }
        return [Family(metric, [((), value)], common) for metric, value in found.items()]
