"""The request processors of the NameServer (DefaultRequestProcessor, ClientRequestProcessor)."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from kerolox.codes import Version
from kerolox.errors import ConfigurationError, ProtocolError, QueryNotFound, SystemFailure, TopicNotFound
from kerolox.namesrv.config import NamesrvConfig
from kerolox.namesrv.entries import BrokerAddress
from kerolox.namesrv.kv_config import ORDER_TOPIC_CONFIG, KVConfigTable
from kerolox.namesrv.responses import RouteResponses
from kerolox.namesrv.route_table import RouteTable
from kerolox.remoting.audit import audited
from kerolox.remoting.config_update import ConfigFile, in_words, shown, wanted_changes
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.clock import Clock
from kerolox.runtime.cooperative import Steps, run_at_once, run_in_steps
from kerolox.runtime.files import Disk
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.registration import RegisterBrokerBody, check_counts, crc32, decoding, decompressing
from kerolox.wire.bodies.routes import TopicRouteData
from kerolox.wire.bodies.topic_pieces import DecodedRegistration, decoding_pieces
from kerolox.wire.bodies.topics import DataVersion, TopicConfigTable, TopicSysFlag
from kerolox.wire.header import Empty
from kerolox.wire.headers import namesrv as h
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

# Clients of this version and later receive routes in standard JSON.
_STANDARD_JSON_FROM = Version.V4_9_4.value

# Larger registrations are decoded in steps. Decompressed they may be a thousand times as large.
_SHORT_MAX = 64 * 1024
_COMPRESSED_SHORT_MAX = 512

_PendingRegistration = Coroutine[Any, Any, Reply[h.BrokerRegistered]]

FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


class RouteProcessor:
    """Requests of producers and consumers."""

    def __init__(self, config: NamesrvConfig, responses: RouteResponses, clock: Clock) -> None:
        self._config = config
        self._responses = responses
        self._clock = clock
        self._started_at = clock.monotonic()

    @handles(h.GetRouteInfoByTopic)
    def route(self, request: Incoming[h.GetRouteInfoByTopic]) -> Reply[Empty]:
        header = request.header
        if self._config.need_wait_for_service:
            self._check_ready()
        if header.zone_mode and header.zone_name:
            reply = self._responses.route_in_zone(header.topic, header.zone_name)
        else:
            strict = request.version >= _STANDARD_JSON_FROM or header.accept_standard_json_only is True
            reply = self._responses.route(header.topic, strict=strict)
        if reply is None:
            raise TopicNotFound(f"No topic route info in name server for the topic: {header.topic}\n{FAQ}")
        return reply

    def _check_ready(self) -> None:
        if self._clock.monotonic() - self._started_at < self._config.wait_seconds_for_service:
            raise SystemFailure("name server not ready")


class BrokerProcessor:
    """Requests of brokers."""

    def __init__(self, config: NamesrvConfig, table: RouteTable, responses: RouteResponses, kv: KVConfigTable) -> None:
        self._config = config
        self._table = table
        self._responses = responses
        self._kv = kv
        # The last registration of each broker that runs in steps, or waits for the lock: they run one at a time.
        self._in_steps: dict[BrokerAddress, _PendingRegistration] = {}
        self._steps_lock = asyncio.Lock()

    @handles(h.RegisterBroker)
    def register(
        self, request: Incoming[h.RegisterBroker]
    ) -> Reply[h.BrokerRegistered] | Awaitable[Reply[h.BrokerRegistered]]:
        broker = BrokerAddress(request.header.cluster_name, request.header.broker_addr)
        if not _is_long(request) and not _is_pending(self._in_steps.get(broker)):
            return self._reply(run_at_once(self._register_steps(request)))
        # A registration that follows a long one of the same broker must not overtake it.
        self._in_steps = {other: last for other, last in self._in_steps.items() if _is_pending(last)}
        pending = self._in_steps[broker] = self._register_in_steps(request)
        return pending

    async def _register_in_steps(self, request: Incoming[h.RegisterBroker]) -> Reply[h.BrokerRegistered]:
        async with self._steps_lock:
            return self._reply(await run_in_steps(self._register_steps(request)))

    def _register_steps(self, request: Incoming[h.RegisterBroker]) -> Steps[h.BrokerRegistered]:
        header, connection = request.header, request.connection
        registered = self._table.renew(header, request.body, connection)
        if registered is not None:
            return registered
        decoded = yield from self._decode_steps(request)
        if connection.is_closed:
            # The close event is over, so nothing would remove the broker again before it expires.
            raise SystemFailure("the connection was closed while the registration was decoded")
        return (yield from self._table.register_steps(header, decoded, connection, body_hash=hash(request.body)))

    def _decode_steps(self, request: Incoming[h.RegisterBroker]) -> Steps[DecodedRegistration]:
        header, body = request.header, request.body
        if header.body_crc32 and header.body_crc32 != crc32(body):
            raise SystemFailure("crc32 not match")
        if not body:
            return DecodedRegistration(RegisterBrokerBody())
        try:
            # Before 3.0.11 the body was only the topic config table.
            is_table = request.version < Version.V3_0_11
            if header.compressed and not is_table:
                return DecodedRegistration((yield from decompressing(body, request.version)))
            check_counts(body)
            if not is_table:
                decoded = self._table.decode_changes(header, body) or (yield from decoding_pieces(body))
                if decoded is not None:
                    return decoded
            if len(body) > REQUEST.dialect_size_max:
                return DecodedRegistration((yield from decoding(body, is_table=is_table)))
            if is_table:
                return DecodedRegistration(RegisterBrokerBody(None, TopicConfigTable.decode(body, REQUEST)))
            return DecodedRegistration(RegisterBrokerBody.decode(body, REQUEST))
        except ProtocolError as error:
            raise SystemFailure(f"Failed to decode RegisterBrokerBody: {error}") from error

    def _reply(self, registered: h.BrokerRegistered) -> Reply[h.BrokerRegistered]:
        return Reply(registered, self._order_topics())

    def _order_topics(self) -> bytes:
        if not self._config.return_order_topic_config_to_broker:
            return b""
        return self._kv.encoded(ORDER_TOPIC_CONFIG) or b""

    @handles(h.UnregisterBroker)
    def unregister(self, request: Incoming[h.UnregisterBroker]) -> Reply[Empty]:
        header = request.header
        self._table.unregister(BrokerAddress(header.cluster_name, header.broker_addr), header.broker_name)
        return Reply()

    @handles(h.BrokerHeartbeat)
    def heartbeat(self, request: Incoming[h.BrokerHeartbeat]) -> Reply[Empty]:
        self._table.heartbeat(BrokerAddress(request.header.cluster_name, request.header.broker_addr))
        return Reply()

    @handles(h.QueryDataVersion)
    def data_version(self, request: Incoming[h.QueryDataVersion]) -> Reply[h.DataVersionCompared]:
        live = self._table.heartbeat(BrokerAddress(request.header.cluster_name, request.header.broker_addr))
        if live is None:
            return Reply(h.DataVersionCompared(changed=True))
        is_equal = bool(request.body) and DataVersion.decode(request.body, REQUEST) == live.data_version
        return Reply(h.DataVersionCompared(changed=not is_equal), live.data_version.encode())

    @handles(h.GetBrokerMemberGroup)
    def member_group(self, request: Incoming[h.GetBrokerMemberGroup]) -> Reply[Empty]:
        return Reply(None, self._responses.member_group(request.header.cluster_name, request.header.broker_name))

    @handles(h.RegisterTopicInNamesrv)
    def register_topic(self, request: Incoming[h.RegisterTopicInNamesrv]) -> Reply[Empty]:
        if request.body:
            self._table.add_topic(request.header.topic, TopicRouteData.decode(request.body, REQUEST).queue_datas)
        return Reply()


class TopicProcessor:
    """Requests of mqadmin and other tools about topics, brokers and clusters."""

    def __init__(self, config: NamesrvConfig, table: RouteTable, responses: RouteResponses) -> None:
        self._config = config
        self._table = table
        self._responses = responses

    @handles(h.GetBrokerClusterInfo)
    def cluster_info(self, request: Incoming[h.GetBrokerClusterInfo]) -> Reply[Empty]:
        return Reply(None, self._responses.cluster_info())

    @handles(h.WipeWritePermOfBroker)
    def wipe_write_perm(self, request: Incoming[h.WipeWritePermOfBroker]) -> Reply[h.WritePermWiped]:
        count = self._table.set_write_perm(request.header.broker_name, is_writable=False)
        log.info("wiped write permission of %s on %d topics", request.header.broker_name, count)
        return Reply(h.WritePermWiped(wipe_topic_count=count))

    @handles(h.AddWritePermOfBroker)
    def add_write_perm(self, request: Incoming[h.AddWritePermOfBroker]) -> Reply[h.WritePermAdded]:
        count = self._table.set_write_perm(request.header.broker_name, is_writable=True)
        log.info("added write permission of %s on %d topics", request.header.broker_name, count)
        return Reply(h.WritePermAdded(add_topic_count=count))

    @handles(h.DeleteTopicInNamesrv)
    def delete_topic(self, request: Incoming[h.DeleteTopicInNamesrv]) -> Reply[Empty]:
        self._table.delete_topic(request.header.topic, request.header.cluster_name)
        return Reply()

    @handles(h.GetAllTopicListFromNameserver)
    def all_topics(self, request: Incoming[h.GetAllTopicListFromNameserver]) -> Reply[Empty]:
        return _listed(self._config.enable_all_topic_list, self._responses.all_topics)

    @handles(h.GetTopicsByCluster)
    def topics_of_cluster(self, request: Incoming[h.GetTopicsByCluster]) -> Reply[Empty]:
        cluster = request.header.cluster
        return _listed(self._config.enable_topic_list, lambda: self._responses.topics_of_cluster(cluster))

    @handles(h.GetSystemTopicListFromNs)
    def system_topics(self, request: Incoming[h.GetSystemTopicListFromNs]) -> Reply[Empty]:
        return Reply(None, self._responses.system_topics())

    @handles(h.GetUnitTopicList)
    def unit_topics(self, request: Incoming[h.GetUnitTopicList]) -> Reply[Empty]:
        return self._flagged(TopicSysFlag.UNIT)

    @handles(h.GetHasUnitSubTopicList)
    def unit_sub_topics(self, request: Incoming[h.GetHasUnitSubTopicList]) -> Reply[Empty]:
        return self._flagged(TopicSysFlag.UNIT_SUB)

    @handles(h.GetHasUnitSubUnunitTopicList)
    def unit_sub_ununit_topics(self, request: Incoming[h.GetHasUnitSubUnunitTopicList]) -> Reply[Empty]:
        return self._flagged(TopicSysFlag.UNIT_SUB, TopicSysFlag.UNIT)

    def _flagged(self, wanted: TopicSysFlag, unwanted: TopicSysFlag | None = None) -> Reply[Empty]:
        return _listed(self._config.enable_topic_list, lambda: self._responses.topics_flagged(wanted, unwanted))


class KVProcessor:
    """Requests about the key-value configuration, which includes the queues of ordered topics."""

    def __init__(self, table: RouteTable, kv: KVConfigTable) -> None:
        self._table = table
        self._kv = kv

    @handles(h.PutKVConfig)
    async def put(self, request: Incoming[h.PutKVConfig]) -> Reply[Empty]:
        header = request.header
        await self._kv.put(header.namespace, header.key, header.value)
        self._order_changed(header.namespace, header.key)
        return Reply()

    @handles(h.GetKVConfig)
    def get(self, request: Incoming[h.GetKVConfig]) -> Reply[h.KVConfigFound]:
        namespace, key = request.header.namespace, request.header.key
        value = self._kv.get(namespace, key)
        if value is None:
            raise QueryNotFound(f"No config item, Namespace: {namespace} Key: {key}")
        return Reply(h.KVConfigFound(value=value))

    @handles(h.DeleteKVConfig)
    async def delete(self, request: Incoming[h.DeleteKVConfig]) -> Reply[Empty]:
        header = request.header
        await self._kv.delete(header.namespace, header.key)
        self._order_changed(header.namespace, header.key)
        return Reply()

    @handles(h.GetKVListByNamespace)
    def namespace(self, request: Incoming[h.GetKVListByNamespace]) -> Reply[Empty]:
        body = self._kv.encoded(request.header.namespace)
        if body is None:
            raise QueryNotFound(f"No config item, Namespace: {request.header.namespace}")
        return Reply(None, body)

    def _order_changed(self, namespace: str, topic_name: str) -> None:
        topic = self._table.topics.get(topic_name)
        if namespace == ORDER_TOPIC_CONFIG and topic is not None:
            topic.encoded_routes.clear()


class ConfigProcessor:
    """Requests about the configuration; only flags and numbers that are marked changeable can be changed."""

    def __init__(self, config: NamesrvConfig, table: RouteTable, disk: Disk) -> None:
        self._config = config
        self._table = table
        self._file = ConfigFile(disk)

    @handles(h.GetNamesrvConfig)
    def get(self, request: Incoming[h.GetNamesrvConfig]) -> Reply[Empty]:
        return Reply(None, shown(self._config.to_properties()))

    @handles(h.UpdateNamesrvConfig)
    async def update(self, request: Incoming[h.UpdateNamesrvConfig]) -> Reply[Empty]:
        with audited(request, f"change configuration: {in_words(request.body, self._config.keys())}"):
            await self._update(request.body)
        return Reply()

    async def _update(self, body: bytes) -> None:
        changes = wanted_changes(body, self._config.keys(), black_list=self._config.config_black_list)
        try:
            self._config.update(changes)
        except ConfigurationError as error:
            raise SystemFailure(str(error)) from error
        self._table.invalidate_responses()
        if changes:
            await self._file.save(self._config.config_store_path, self._config.to_properties())


def _is_pending(registration: _PendingRegistration | None) -> bool:
    return registration is not None and inspect.getcoroutinestate(registration) != inspect.CORO_CLOSED


def _is_long(request: Incoming[h.RegisterBroker]) -> bool:
    """Whether decoding a registration may take more than a few milliseconds; a compressed one may be any size."""
    size_max = _COMPRESSED_SHORT_MAX if request.header.compressed else _SHORT_MAX
    return len(request.body) > size_max


def _listed(is_enabled: bool, topics: Callable[[], bytes]) -> Reply[Empty]:
    if not is_enabled:
        raise SystemFailure("disable")
    return Reply(None, topics())
