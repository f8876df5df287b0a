"""Assembly of the NameServer (NamesrvController)."""

from collections.abc import Sequence

from kerolox.namesrv.broker_liveness import ExpiryScan, Notifier
from kerolox.namesrv.config import NamesrvConfig
from kerolox.namesrv.kv_config import KVConfigTable
from kerolox.namesrv.metrics import NameServerMetrics
from kerolox.namesrv.processors import BrokerProcessor, ConfigProcessor, KVProcessor, RouteProcessor, TopicProcessor
from kerolox.namesrv.responses import RouteResponses
from kerolox.namesrv.route_table import RouteTable
from kerolox.remoting.policy import Policy
from kerolox.remoting.router import Router
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.request_queue import RequestQueue
from kerolox.runtime.service import Step, Supervisor


class NameServer(Supervisor):
    """A NameServer in this process: `async with NameServer(config) as server: ... server.address`.

    When one of its services fails, the server closes, and `async with` raises ServiceFailed.
    """

    def __init__(
        self,
        config: NamesrvConfig,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        policies: Sequence[Policy] = (),
    ) -> None:
        clock = clock or SystemClock()
        disk = disk or RealDisk()
        self.config = config
        self._notifier = Notifier()
        self.table = RouteTable(config, clock, notify=self._notifier.submit)
        self.kv = KVConfigTable(disk, config.kv_config_path, bytes_max=config.kv_config_bytes_max)
        responses = RouteResponses(config, self.table, self.kv)
        self.router = Router(
            RouteProcessor(config, responses, clock),
            BrokerProcessor(config, self.table, responses, self.kv),
            TopicProcessor(config, self.table, responses),
            KVProcessor(self.table, self.kv),
            ConfigProcessor(config, self.table, disk),
            request_queues={
                "default": RequestQueue("default", config.default_thread_pool_queue_capacity),
            },
            policies=policies,
        )
        self.server = Server(
            self.router,
            host=config.bind_address,
            port=config.listen_port,
            backlog=config.server_socket_backlog,
            clock=clock,
            limits=config.limits(),
            tls_mode=config.tls_server_mode,
            tls=config.server_tls(),
            trusted_proxies=config.proxy_protocol_trusted_addresses,
            on_closed=self.table.channel_closed,
            connection_limit=config.connection_limit(clock),
        )
        self.metrics = NameServerMetrics(config, self.table, self.server)
        self.metrics_listener = config.metrics_listener(self.metrics.gather)
        super().__init__(
            Step(opening=self.kv.load),
            self._notifier,
            ExpiryScan(self.table, config, clock),
            self.server,
            *([] if self.metrics_listener is None else [self.metrics_listener]),
        )

    @property
    def address(self) -> str:
        return self.server.address
