"""Assembly of the controller (ControllerManager)."""

from collections.abc import Sequence

from kerolox.controller.config import ControllerConfig, ControllerStorage
from kerolox.controller.elections import Elections, InactiveMasterScan, NotActiveScan, Notifier
from kerolox.controller.groups import BrokerGroups
from kerolox.controller.leadership import LeadershipService
from kerolox.controller.liveness import Liveness
from kerolox.controller.metrics import ControllerMetrics
from kerolox.controller.processors import BrokerProcessor, MetadataProcessor
from kerolox.controller.storage.etcd import Etcd
from kerolox.controller.storage.local_file import LocalFile
from kerolox.controller.storage.storage import Storage
from kerolox.remoting.policy import Policy
from kerolox.remoting.router import Router
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.request_queue import RequestQueue
from kerolox.runtime.service import Step, Supervisor


class Controller(Supervisor):
    """A controller in this process: `async with Controller(config) as controller: ... controller.address`.

    When one of its services fails, the controller closes, and `async with` raises ServiceFailed.
    """

    def __init__(
        self,
        config: ControllerConfig,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        policies: Sequence[Policy] = (),
    ) -> None:
        config.validate()
        clock, disk = clock or SystemClock(), disk or RealDisk()
        self.config = config
        self._peers = config.peers()
        storage = _storage(config, clock, disk)
        self.groups = BrokerGroups(
            storage,
            groups_max=config.broker_group_nums_max,
            attempts_max=lambda: config.elect_master_max_retry_count,
        )
        self.liveness = Liveness(clock, brokers_max=config.broker_nums_max)
        self.leadership = LeadershipService(storage, self.groups, self._identity, clock)
        notifier = Notifier(config)
        elections = Elections(self.groups, self.liveness, self.leadership, notifier, config)
        self.router = Router(
            BrokerProcessor(self.groups, self.liveness, self.leadership, notifier, config),
            MetadataProcessor(config, self.leadership, self._addresses, disk),
            request_queues={
                "default": RequestQueue("default", config.controller_request_thread_pool_queue_capacity),
            },
            policies=policies,
        )
        self.server = Server(
            self.router,
            host=config.bind_address,
            port=config.port(),
            backlog=config.server_socket_backlog,
            clock=clock,
            limits=config.limits(),
            tls_mode=config.tls_server_mode,
            tls=config.server_tls(),
            trusted_proxies=config.proxy_protocol_trusted_addresses,
            on_closed=elections.channel_closed,
            connection_limit=config.connection_limit(clock),
        )
        metrics = ControllerMetrics(config, self.groups, self.liveness, self.leadership, self.server)
        self.metrics_listener = config.metrics_listener(metrics.gather)
        super().__init__(
            Step(opening=storage.open, closing=storage.close),
            notifier,
            elections,
            self.server,
            # After the server, whose address it may publish; until it leads, requests are answered NOT_LEADER.
            self.leadership,
            NotActiveScan(self.liveness, elections, config, clock),
            InactiveMasterScan(elections, self.leadership, config, clock),
            *([] if self.metrics_listener is None else [self.metrics_listener]),
        )

    @property
    def address(self) -> str:
        return self.server.address

    def _identity(self) -> tuple[str, str]:
        """Return the id and the address by which brokers find this controller."""
        if self._peers is None:
            return self.config.controller_d_leger_self_id, self.server.address
        return self._peers.self_id, self._peers.addresses[self._peers.self_id]

    def _addresses(self) -> dict[str, str]:
        return dict([self._identity()]) if self._peers is None else self._peers.addresses


def _storage(config: ControllerConfig, clock: Clock, disk: Disk) -> Storage:
    if config.controller_storage is ControllerStorage.FILE:
        return LocalFile(disk, config.controller_store_path)
    return Etcd(
        config.endpoints(),
        config.etcd_key_prefix,
        clock,
        lease_seconds=config.etcd_lease_seconds,
        tls=config.etcd_tls(),
    )
