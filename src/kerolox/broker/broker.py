"""The broker put together from its parts."""

from collections.abc import Callable

from kerolox.broker.admission import Admission
from kerolox.broker.announcement import Announcement, Identity
from kerolox.broker.clients import Clients
from kerolox.broker.configuration import Settings
from kerolox.broker.falling import FallBehind
from kerolox.broker.filter_data import ConsumerFilters
from kerolox.broker.filter_servers import FilterServers
from kerolox.broker.groups import GroupTable
from kerolox.broker.lags import Lags
from kerolox.broker.lanes import lanes
from kerolox.broker.locks import QueueLocks
from kerolox.broker.metrics import BrokerMetrics
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.pop.assignment import RequestModes
from kerolox.broker.pop.parts import Pop
from kerolox.broker.pop.routes import ReadableQueues
from kerolox.broker.processors.assignment import AssignmentProcessor
from kerolox.broker.processors.clients import ClientProcessor
from kerolox.broker.processors.configuration import ConfigProcessor
from kerolox.broker.processors.connections import ConnectionProcessor
from kerolox.broker.processors.control import ControlProcessor
from kerolox.broker.processors.filters import FilterProcessor
from kerolox.broker.processors.groups import GroupProcessor
from kerolox.broker.processors.offsets import OffsetProcessor
from kerolox.broker.processors.pop import PopProcessor
from kerolox.broker.processors.progress import ProgressProcessor
from kerolox.broker.processors.pull import PullProcessor
from kerolox.broker.processors.query import QueryProcessor
from kerolox.broker.processors.queues import QueueProcessor
from kerolox.broker.processors.recall import RecallProcessor
from kerolox.broker.processors.registration import RegistrationProcessor
from kerolox.broker.processors.reply import ReplyProcessor
from kerolox.broker.processors.runtime import (
    FilterServerProcessor,
    MaintenanceProcessor,
    ReplicaProcessor,
    RuntimeProcessor,
)
from kerolox.broker.processors.send import SendProcessor
from kerolox.broker.processors.send_back import SendBackProcessor
from kerolox.broker.processors.topics import TopicProcessor
from kerolox.broker.processors.transactions import TransactionProcessor
from kerolox.broker.registration import Registration
from kerolox.broker.retries import Retries
from kerolox.broker.runtime_info import RuntimeInfo
from kerolox.broker.selection import Selector
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing
from kerolox.broker.topics import TopicTable
from kerolox.broker.transactions.transactions import Transactions
from kerolox.message import hosts
from kerolox.message.ids import UniqueIds
from kerolox.remoting.address import format_address, parse_address, parse_addresses
from kerolox.remoting.client import Client
from kerolox.remoting.connection import flush_waiting
from kerolox.remoting.routes import Routes
from kerolox.remoting.server import Server
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.service import Periodic, Service, Supervisor
from kerolox.store.delay.schedule import ScheduledDelivery
from kerolox.store.store import Store
from kerolox.store.timer.timer import Timer

_EXPIRY_SECONDS = 10.0
_PROTECTION_SECONDS = 180.0
# Clients that know of it send over this port, so that sending does not wait behind pulling.
_VIP_PORT_BELOW = 2


class Broker:
    """A broker inside this process: `async with Broker(settings) as broker: ... broker.address`."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        settings.refuse_pretence()
        clock = clock or SystemClock()
        disk = disk or RealDisk()
        config = settings.broker
        self.settings = settings
        self.store = Store(settings.store, clock=clock, disk=disk)
        directory = settings.store.store_path_root_dir / "config"
        self.topics = TopicTable(config, disk, directory, clock)
        self.groups = GroupTable(config, disk, directory, clock)
        self.offsets = ConsumerOffsets(config, disk, directory, clock)
        self.clients = Clients(config, clock)
        self.filters = ConsumerFilters(config, disk, directory, clock)
        self.clients.is_notified = self._is_notified
        self.clients.on_subscribed, self.clients.on_left = self.filters.subscribe, self.filters.leave
        if config.enable_calc_filter_bit_map:
            settings.store.bit_map_length_consume_queue_ext = self.filters.bloom.bit_count
            self.store.dispatcher.bit_map_of = self.filters.bit_map_of
        self.selector = Selector(config, self.filters)
        self.locks = QueueLocks(clock)
        self.delivery = ScheduledDelivery(self.store, clock=clock, disk=disk)
        self.timer = Timer(self.store, clock=clock, disk=disk)
        self.storing = Storing(self.store, self.timer.divert)
        self.statistics = Statistics(config.broker_cluster_name, self.topics.is_system, clock)
        self.behind = FallBehind(config, self.store, self.groups, clock)
        self.pop = Pop(
            *(config, self.store, self.storing, self.topics, self.groups, self.offsets, self.timer, self.statistics),
            *(disk, directory, clock),
        )
        self.request_modes = RequestModes(config, disk, directory, clock)
        self.transactions = Transactions(config, self.storing, self.topics, self.offsets, self.clients, clock)
        self.client = Client(connect_timeout_seconds=settings.client.connect_timeout_millis / 1000)
        self._identity = Identity("", "")
        announcement = Announcement(config, self.topics, self._identity)
        self.registration = Registration(config, self.topics, self.client, announcement, clock)
        self.registration.update(parse_addresses(config.namesrv_addr or ""))
        self.topics.on_change = self.registration.register_soon
        self.filter_servers = FilterServers(clock)
        announcement.filter_servers = self.filter_servers.addresses
        queues = ReadableQueues(config, self.topics, self.client, lambda: self.registration.addresses, clock)
        ids = UniqueIds(hosts.pack(config.broker_ip1, 0)[:-4], clock=clock)
        admitted = lanes(config)
        admission = Admission(config, self.topics, clock)
        retries = Retries(self.topics, self.groups, self.locks)
        self.store.on_told = flush_waiting
        self.store.patience_seconds = lambda: config.wait_time_mills_in_send_queue / 1000
        info = RuntimeInfo(*(settings, self.store, self.delivery, self.timer, self.statistics, admitted, clock, disk))
        self.routes = Routes(
            SendProcessor(
                config, self.topics, admission, retries, self.storing, ids, admitted["send"], self.statistics
            ),
            SendBackProcessor(config, retries, self.storing, self.statistics),
            ReplyProcessor(config, admission, self.clients, self.storing, self.statistics, clock),
            RecallProcessor(config, self.topics, self.storing, self.statistics, clock),
            QueryProcessor(self.store.reader, admitted["query"]),
            PullProcessor(
                *(config, self.store, self.topics, self.groups, self.offsets, self.clients, self.selector),
                *(self.statistics, self.behind, admitted["pull"], admitted["litePull"]),
            ),
            PopProcessor(
                *(config, settings.store, self.topics, self.groups, self.pop, self.statistics, clock),
                *(self.selector.of_request, admitted["pull"]),
            ),
            AssignmentProcessor(config, self.topics, self.groups, self.clients, self.request_modes, queues),
            OffsetProcessor(self.store, self.topics, self.groups, self.offsets),
            ClientProcessor(self.clients, self.topics, self.groups, self.locks, clock),
            FilterProcessor(config),
            ConnectionProcessor(self.clients, self.offsets, self._identity),
            ProgressProcessor(
                self.store,
                self.topics,
                self.groups,
                self.offsets,
                self.clients,
                self.statistics,
                self._identity,
                config.broker_name,
                clock,
            ),
            QueueProcessor(self.store, self.clients, self.filters),
            ControlProcessor(
                config, self.store, self.topics, self.groups, self.offsets, self.clients, admitted["default"]
            ),
            RuntimeProcessor(info, self.statistics),
            MaintenanceProcessor(self.store, self.topics),
            ReplicaProcessor(self.store, self.offsets, self.delivery, self.timer),
            FilterServerProcessor(config, self.filter_servers, self.registration),
            TransactionProcessor(
                config, self.transactions, self.storing, admitted["endTransaction"], clock, self.statistics
            ),
            TopicProcessor(config, self.store, self.topics, self.offsets, self.clients, self._forget_topic),
            GroupProcessor(config, self.groups, self.offsets, self._forget_group),
            ConfigProcessor(settings, self.topics, self.registration, disk, clock),
            RegistrationProcessor(),
            lanes=admitted,
        )
        lags = Lags(self.store.reader, self.topics, self.offsets, self.behind, self.pop, clock)
        self.metrics = BrokerMetrics(
            *(settings, self.store, self.topics, self.groups, self.clients, self.statistics, self.timer, self.pop),
            *(self.transactions.counts, lags, admitted, clock, disk),
        )
        self.metrics_listener = settings.server.metrics_listener(self.metrics.gather)
        self._crowd = settings.server.crowd(clock, files_max=settings.store.open_files_max)
        self.server = self._server(settings.server.listen_port, clock)
        vip_port = settings.server.listen_port - _VIP_PORT_BELOW
        self._servers = [self.server]
        if vip_port > 0:
            self._servers.append(self._server(vip_port, clock))
        self._supervisor = Supervisor(
            self.store,
            # Not before the store is ours alone: another broker may just be writing its tables.
            _Opening(self._load),
            self.delivery,
            self.timer,
            self.topics.file,
            self.groups.file,
            self.offsets.file,
            self.filters.file,
            self.statistics,
            self.pop.orders.file,
            self.request_modes.file,
            self.pop.revive,
            self.transactions,
            Periodic("expiry of clients", seconds=_EXPIRY_SECONDS, job=self._expire, clock=clock),
            Periodic("protection", seconds=_PROTECTION_SECONDS, job=self.behind.protect, clock=clock),
            *self._servers,
            _Opening(self._name),
            *([] if self.metrics_listener is None else [self.metrics_listener]),
            self.registration,
        )

    def _server(self, port: int, clock: Clock) -> Server:
        config = self.settings.server
        return Server(
            self.routes,
            host=config.bind_address,
            port=port,
            backlog=config.server_socket_backlog,
            clock=clock,
            limits=config.limits(),
            tls_mode=config.tls_server_mode,
            tls=config.server_tls(),
            on_closed=self.clients.channel_closed,
            crowd=self._crowd,
        )

    @property
    def address(self) -> str:
        """What clients are told to connect to."""
        return self._identity.address

    async def __aenter__(self) -> "Broker":
        try:
            # Before there is a store that nobody will use, or one is opened for nothing.
            for server in self._servers:
                await server.check()
            await self._supervisor.__aenter__()
        except BaseException:
            await self.client.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._supervisor.__aexit__(None, None, None)
        await self.client.close()

    async def wait(self) -> None:
        """Waits for ever, or until a part of the broker fails."""
        await self._supervisor.wait()

    def _load(self) -> None:
        self.topics.load()
        self.groups.load()
        self.offsets.load()
        self.filters.load()
        self.pop.orders.load()
        self.request_modes.load()

    def _name(self) -> None:
        """Takes the name by which others know it, once the port is known."""
        config = self.settings.broker
        _, port = parse_address(self.server.address)
        self._identity.address = format_address((config.broker_ip1, port))
        self._identity.ha_address = format_address((config.broker_ip2, port + 1))
        self.storing.store_host = hosts.pack(config.broker_ip1, port)

    def _is_notified(self, group: str) -> bool:
        known = self.groups.groups.get(group)
        is_wanted = known is None or known.notify_consumer_ids_changed_enable
        return is_wanted and self.settings.broker.notify_consumer_ids_changed_enable

    def _forget_topic(self, topic: str) -> None:
        self.statistics.forget_topic(topic)
        self.behind.forget_topic(topic)
        self.pop.orders.delete_topic(topic)

    def _forget_group(self, group: str) -> None:
        self.statistics.forget_group(group)
        self.behind.forget_group(group)
        self.pop.orders.delete_group(group)

    def _expire(self) -> None:
        self.clients.expire()
        self.locks.expire()
        self.filters.clean()
        self.filter_servers.expire()


class _Opening(Service):
    """Something done in its turn while the broker starts."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step

    async def open(self) -> None:
        self._step()
