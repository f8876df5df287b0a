"""The NameServer put together from its parts."""

from kerolox.namesrv.answers import Answers
from kerolox.namesrv.configuration import NamesrvConfig
from kerolox.namesrv.kv_store import KVStore
from kerolox.namesrv.liveness import ExpiryScan, Notifier
from kerolox.namesrv.metrics import NameServerMetrics
from kerolox.namesrv.processor import BrokerProcessor, KVProcessor, RouteProcessor, TopicProcessor
from kerolox.namesrv.route_table import RouteTable
from kerolox.namesrv.runtime_config import ConfigProcessor
from kerolox.remoting.routes import Routes
from kerolox.remoting.server import Server
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.lanes import Lane
from kerolox.runtime.service import Supervisor


class NameServer:
    """A NameServer inside this process: `async with NameServer(config) as server: ... server.address`."""

    def __init__(self, config: NamesrvConfig, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        clock = clock or SystemClock()
        disk = disk or RealDisk()
        self.config = config
        self._notifier = Notifier()
        self.table = RouteTable(config, clock, notify=self._notifier.submit)
        self.kv = KVStore(disk, config.kv_config_path, bytes_max=config.kv_config_bytes_max)
        answers = Answers(config, self.table, self.kv)
        self.routes = Routes(
            RouteProcessor(config, answers, clock),
            BrokerProcessor(config, self.table, answers, self.kv),
            TopicProcessor(config, self.table, answers),
            KVProcessor(self.table, self.kv),
            ConfigProcessor(config, self.table, disk),
            lanes={
                "default": Lane("default", config.default_thread_pool_queue_capacity),
            },
        )
        self.server = Server(
            self.routes,
            host=config.bind_address,
            port=config.listen_port,
            backlog=config.server_socket_backlog,
            clock=clock,
            limits=config.limits(),
            tls_mode=config.tls_server_mode,
            tls=config.server_tls(),
            on_closed=self.table.channel_closed,
            crowd=config.crowd(clock),
        )
        self.metrics = NameServerMetrics(config, self.table, self.server)
        self.metrics_listener = config.metrics_listener(self.metrics.gather)
        self._supervisor = Supervisor(
            self._notifier,
            ExpiryScan(self.table, config, clock),
            self.server,
            *([] if self.metrics_listener is None else [self.metrics_listener]),
        )

    @property
    def address(self) -> str:
        return self.server.address

    async def __aenter__(self) -> "NameServer":
        self.kv.load()
        await self._supervisor.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._supervisor.__aexit__(None, None, None)

    async def wait(self) -> None:
        """Waits for ever, or until a part of the server fails."""
        await self._supervisor.wait()
