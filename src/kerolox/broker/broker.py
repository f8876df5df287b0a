"""A broker: its processors, services and listeners (BrokerController)."""

from collections.abc import Sequence

from kerolox.broker.config import Settings
from kerolox.broker.metrics.exporter import BrokerMetrics
from kerolox.broker.metrics.runtime_info import RuntimeInfo
from kerolox.broker.parts import build_parts
from kerolox.broker.pop.assembly import Pop
from kerolox.broker.pop.assignment import RequestModes
from kerolox.broker.pop.readable_queues import ReadableQueues
from kerolox.broker.processors.admin.broker_info import (
    BrokerInfoProcessor,
    FilterServerProcessor,
    MaintenanceProcessor,
)
from kerolox.broker.processors.admin.config import ConfigProcessor
from kerolox.broker.processors.admin.connections import ConnectionProcessor
from kerolox.broker.processors.admin.consume_queue import ConsumeQueueProcessor
from kerolox.broker.processors.admin.consume_stats import ConsumeStatsProcessor
from kerolox.broker.processors.admin.consumer_control import ConsumerControlProcessor
from kerolox.broker.processors.admin.groups import GroupProcessor
from kerolox.broker.processors.admin.replication import HaProcessor, MetadataProcessor
from kerolox.broker.processors.admin.topics import TopicProcessor
from kerolox.broker.processors.assignment import AssignmentProcessor
from kerolox.broker.processors.client_config_check import ClientConfigCheckProcessor
from kerolox.broker.processors.consumer_offsets import ConsumerOffsetProcessor
from kerolox.broker.processors.end_transaction import EndTransactionProcessor
from kerolox.broker.processors.heartbeats import HeartbeatProcessor
from kerolox.broker.processors.pop import PopMessageProcessor
from kerolox.broker.processors.pull import PullMessageProcessor
from kerolox.broker.processors.query_message import QueryMessageProcessor
from kerolox.broker.processors.recall import RecallMessageProcessor
from kerolox.broker.processors.reply_message import ReplyMessageProcessor
from kerolox.broker.processors.send import SendMessageProcessor
from kerolox.broker.processors.send_back import SendBackProcessor
from kerolox.broker.pull.message_filter import Selector
from kerolox.broker.pull.suggested_broker import SuggestedBroker
from kerolox.broker.registration.filter_servers import FilterServers
from kerolox.broker.registration.registrar import Registrar
from kerolox.broker.registration.requests import RegistrationRequests
from kerolox.broker.replication.metadata_copy import MetadataCopy
from kerolox.broker.replication.replication import Replication
from kerolox.broker.replication.slave_policy import SlavePolicy
from kerolox.broker.send.admission import Admission
from kerolox.broker.send.retry_topics import RetryTopics
from kerolox.broker.tables.queue_locks import QueueLocks
from kerolox.broker.transactions.service import TransactionService
from kerolox.message import hosts
from kerolox.message.ids import UniqueIds
from kerolox.remoting.address import format_address, parse_address, parse_addresses
from kerolox.remoting.client import Client
from kerolox.remoting.policy import Policy
from kerolox.remoting.router import Router
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.service import Periodic, Service, Step, Supervisor

_EXPIRY_SECONDS = 10.0
_PROTECTION_SECONDS = 180.0
# The VIP port: clients may send there, so that sends do not queue behind pulls (vipChannelEnabled).
_VIP_PORT_BELOW = 2


class Broker(Supervisor):
    """A broker inside this process: `async with Broker(settings) as broker: ... broker.address`.

    When one of its services fails, the broker closes, and `async with` raises ServiceFailed.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        policies: Sequence[Policy] = (),
    ) -> None:
        settings.refuse_unsupported()
        settings.settle_identity()
        self.settings = settings
        self.parts = parts = build_parts(settings, clock or SystemClock(), disk or RealDisk())
        self.store, self.delivery, self.timer = parts.store, parts.delivery, parts.timer
        self.topics, self.groups, self.offsets = parts.topics, parts.groups, parts.offsets
        self.clients, self.filters = parts.clients, parts.filters
        self.statistics, self.slow_consumers = parts.statistics, parts.slow_consumers

        self.selector = Selector(parts.config, parts.filters)
        self.locks = QueueLocks(parts.clock)
        self.pop = Pop(parts)
        self.request_modes = RequestModes(parts.config, parts.disk, parts.config_directory, parts.clock)
        self.transactions = TransactionService(parts)
        self.client = Client(connect_timeout_seconds=settings.client.connect_timeout_millis / 1000)
        self.filter_servers = FilterServers(parts.clock)
        self.registration = self._build_registrar()
        metadata_copy = MetadataCopy(parts, self.request_modes, self.client, on_topics=self.registration.register_soon)
        self.replication = Replication(parts, self.client, metadata_copy)
        self.registration.set_master_listener(self.replication.follow)

        if settings.store.is_slave:
            policies = [*policies, SlavePolicy(lambda: settings.store.is_slave)]
        self.router = Router(*self._build_processors(), request_queues=parts.request_queues, policies=policies)
        self._connection_limit = settings.server.connection_limit(parts.clock, files_max=settings.store.open_files_max)
        self.server = self._build_server(settings.server.listen_port)
        self._servers = [self.server]
        vip_port = settings.server.listen_port - _VIP_PORT_BELOW
        if vip_port > 0:
            self._servers.append(self._build_server(vip_port))
        self.metrics = BrokerMetrics(parts, self.pop, self.transactions.metrics, self.replication)
        self.metrics_listener = settings.server.metrics_listener(self.metrics.gather)
        super().__init__(*self._build_services())

    @property
    def address(self) -> str:
        """The address that clients connect to, as registered with NameServers."""
        return self.parts.addresses.address

    def __str__(self) -> str:
        return f"broker {self.settings.broker.broker_name}"

    def _build_processors(self) -> list[object]:
        """Return one object per family of requests; their methods with `@handles` answer one request code each."""
        parts, config, clock = self.parts, self.parts.config, self.parts.clock
        message_ids = UniqueIds(hosts.pack(config.broker_ip1, 0)[:-4], clock=clock)
        admission = Admission(config, parts.topics, clock)
        retry_topics = RetryTopics(parts.topics, parts.groups, self.locks)
        suggested_broker = SuggestedBroker(
            config, parts.settings.store, parts.groups, lambda: self.replication.has_master
        )
        readable_queues = ReadableQueues(config, parts.topics, self.client, lambda: self.registration.addresses, clock)
        return [
            SendMessageProcessor(parts, admission, retry_topics, message_ids),
            SendBackProcessor(parts, retry_topics),
            ReplyMessageProcessor(parts, admission),
            RecallMessageProcessor(parts),
            QueryMessageProcessor(parts),
            PullMessageProcessor(parts, self.selector, suggested_broker),
            PopMessageProcessor(parts, self.pop, self.selector),
            AssignmentProcessor(parts, self.request_modes, readable_queues),
            ConsumerOffsetProcessor(parts),
            HeartbeatProcessor(parts, self.locks),
            ClientConfigCheckProcessor(config),
            EndTransactionProcessor(parts, self.transactions),
            ConnectionProcessor(parts),
            ConsumeStatsProcessor(parts),
            ConsumeQueueProcessor(parts),
            ConsumerControlProcessor(parts),
            BrokerInfoProcessor(RuntimeInfo(parts), parts.statistics),
            MaintenanceProcessor(parts),
            MetadataProcessor(parts, self.request_modes),
            HaProcessor(self.replication, self.registration),
            FilterServerProcessor(config, self.filter_servers, self.registration),
            TopicProcessor(parts, self.registration, on_deleted=self._forget_topic),
            GroupProcessor(parts, on_deleted=self._forget_group),
            ConfigProcessor(parts, self.registration),
        ]

    def _build_services(self) -> list[Service]:
        """Return the services in the order in which they open; they close in reverse order."""
        clock = self.parts.clock
        return [
            Step(closing=self.client.close),
            # A busy port is reported before a store is created or recovered.
            Step(opening=self._check_ports),
            self.store,
            # The store holds the lock file now, so no other broker is writing these tables.
            Step(opening=self._load_tables),
            *self._if_master(self.delivery, self.timer),
            self.topics.file,
            self.groups.file,
            self.offsets.file,
            self.filters.file,
            self.statistics,
            self.pop.orders.file,
            self.request_modes.file,
            *self._if_master(self.pop.revive, self.transactions),
            *self.replication.services(),
            Periodic("expiry of clients", seconds=_EXPIRY_SECONDS, job=self._expire, clock=clock),
            Periodic("protection", seconds=_PROTECTION_SECONDS, job=self.slow_consumers.protect, clock=clock),
            *self._servers,
            Step(opening=self._set_addresses),
            *([] if self.metrics_listener is None else [self.metrics_listener]),
            # Last, so that clients find the broker only when it can serve them.
            self.registration,
        ]

    def _if_master(self, *services: Service) -> list[Service]:
        """Return services that store messages, which a slave must not do: its log is a copy."""
        return [] if self.settings.store.is_slave else list(services)

    def _build_registrar(self) -> Registrar:
        parts, config = self.parts, self.parts.config
        requests = RegistrationRequests(config, parts.topics, parts.addresses, self.filter_servers.addresses)
        registrar = Registrar(config, parts.topics, self.client, requests, parts.clock)
        registrar.update(parse_addresses(config.namesrv_addr or ""))
        parts.topics.set_change_listener(registrar.register_soon)
        return registrar

    def _build_server(self, port: int) -> Server:
        config = self.settings.server
        return Server(
            self.router,
            host=config.bind_address,
            port=port,
            backlog=config.server_socket_backlog,
            clock=self.parts.clock,
            limits=config.limits(),
            tls_mode=config.tls_server_mode,
            tls=config.server_tls(),
            trusted_proxies=config.proxy_protocol_trusted_addresses,
            on_closed=self.clients.channel_closed,
            connection_limit=self._connection_limit,
        )

    async def _check_ports(self) -> None:
        for server in self._servers:
            await server.check()
        await self.replication.check_port()

    def _load_tables(self) -> None:
        queue_counts = self.store.queue_counts()
        self.topics.load(queue_counts)
        self.groups.load(has_messages=bool(queue_counts))
        self.offsets.load(has_messages=bool(queue_counts))
        self.offsets.limit(self.store.queue_ends(), self.store.log.end_offset)
        self.filters.load()
        self.pop.orders.load()
        self.request_modes.load()

    def _set_addresses(self) -> None:
        """Fill in the advertised addresses; with `listenPort=0` the port is known only when the server listens."""
        config, addresses = self.settings.broker, self.parts.addresses
        _, port = parse_address(self.server.address)
        addresses.address = format_address((config.broker_ip1, port))
        server = self.replication.server
        # A slave registers the address too, as in RocketMQ; nobody connects to it.
        ha_port = port + 1 if server is None else parse_address(server.address)[1]
        addresses.ha_address = format_address((config.broker_ip2, ha_port))
        self.parts.message_put.store_host = hosts.pack(config.broker_ip1, port)

    def _forget_topic(self, topic: str) -> None:
        self.statistics.forget_topic(topic)
        self.slow_consumers.forget_topic(topic)
        self.pop.orders.delete_topic(topic)
        self.pop.offsets.delete_topic(topic)

    def _forget_group(self, group: str) -> None:
        self.statistics.forget_group(group)
        self.slow_consumers.forget_group(group)
        self.pop.orders.delete_group(group)
        self.pop.offsets.delete_group(group)

    def _expire(self) -> None:
        self.clients.expire()
        self.locks.expire()
        self.filters.clean()
        self.filter_servers.expire()
