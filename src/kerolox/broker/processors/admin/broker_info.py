"""State of the broker, cleanup on request, requests of slaves, filter servers and NameServers."""

import logging

from kerolox.broker.config import BrokerConfig
from kerolox.broker.metrics.counters import BrokerStats
from kerolox.broker.metrics.runtime_info import RuntimeInfo
from kerolox.broker.metrics.windows import DAY, HOUR, MINUTE, Traffic
from kerolox.broker.parts import BrokerParts
from kerolox.broker.registration.filter_servers import FilterServers
from kerolox.broker.registration.registrar import Registrar
from kerolox.broker.unsupported import REFUSED
from kerolox.errors import NoPermission, SystemFailure
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.cooperative import in_turns
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.offsets import BrokerStatsData, HaRuntimeInfo, StatsItem
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as h
from kerolox.wire.headers import offsets as o
from kerolox.wire.headers.namesrv import NotifyMinBrokerIdChange
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

# Entries encoded without yielding to other tasks.
_KEYS_AT_ONCE = 500


class BrokerInfoProcessor:
    def __init__(self, info: RuntimeInfo, statistics: BrokerStats) -> None:
        self._info = info
        self._statistics = statistics

    @handles(h.GetBrokerRuntimeInfo)
    async def runtime_info(self, request: Incoming[h.GetBrokerRuntimeInfo]) -> Reply[Empty]:
        return Reply(None, KVTable(await self._info.table()).encode())

    @handles(h.ViewBrokerStatsData)
    def stats(self, request: Incoming[h.ViewBrokerStatsData]) -> Reply[Empty]:
        name, key = request.header.stats_name, request.header.stats_key
        found = self._statistics.find(name, key)
        if found is None:
            raise SystemFailure(f"The stats <{name}> <{key}> not exist")
        traffic, member = found
        data = BrokerStatsData(
            stats_day=_item(traffic, DAY, member),
            stats_hour=_item(traffic, HOUR, member),
            stats_minute=_item(traffic, MINUTE, member),
        )
        return Reply(None, data.encode())


def _item(traffic: Traffic, window: int, member: str) -> StatsItem:
    part = traffic.window_stats(window, member)
    return StatsItem(avgpt=part.per_request, sum=part.sum, tps=part.per_second)


class MaintenanceProcessor:
    def __init__(self, parts: BrokerParts) -> None:
        self._store = parts.store
        self._topics = parts.topics

    @handles(h.CleanExpiredConsumeQueue)
    async def clean_expired(self, request: Incoming[h.CleanExpiredConsumeQueue]) -> Reply[Empty]:
        await self._store.topic_cleanup.clean_expired()
        return Reply()

    @handles(h.CleanUnusedTopic)
    async def clean_unused(self, request: Incoming[h.CleanUnusedTopic]) -> Reply[Empty]:
        await self._store.topic_cleanup.clean_unused(self._topics.topics.keys())
        return Reply()

    @handles(h.DeleteExpiredCommitLog)
    def delete_expired(self, request: Incoming[h.DeleteExpiredCommitLog]) -> Reply[Empty]:
        self._store.retention.request_deletion()
        return Reply()


class ReplicaProcessor:
    """Requests that a slave sends to its master, and the HA status."""

    def __init__(self, parts: BrokerParts) -> None:
        self._store = parts.store
        self._offsets = parts.offsets
        self._delivery = parts.delivery
        self._timer = parts.timer

    @handles(o.GetAllConsumerOffset)
    async def consumer_offsets(self, request: Incoming[o.GetAllConsumerOffset]) -> Reply[Empty]:
        version = self._offsets.data_version.encode()
        pieces: list[bytes] = []
        async for key in in_turns(list(self._offsets.table), count=_KEYS_AT_ONCE):
            offsets = self._offsets.table.get(key)
            if offsets is not None:
                pieces.append(fastjson.encode({key: offsets})[1:-1])
        return Reply(None, b'{"dataVersion":%b,"offsetTable":{%b}}' % (version, b",".join(pieces)))

    @handles(o.GetAllDelayOffset)
    def delay_offsets(self, request: Incoming[o.GetAllDelayOffset]) -> Reply[Empty]:
        return Reply(None, self._delivery.offsets.encode())

    @handles(h.GetTimerCheckPoint)
    def timer_checkpoint(self, request: Incoming[h.GetTimerCheckPoint]) -> Reply[Empty]:
        self._check_timer("checkpoint")
        return Reply(None, self._timer.checkpoint.encode())

    @handles(h.GetTimerMetrics)
    def timer_metrics(self, request: Incoming[h.GetTimerMetrics]) -> Reply[Empty]:
        self._check_timer("metrics")
        return Reply(None, fastjson.encode(self._timer.metrics.counts))

    def _check_timer(self, what: str) -> None:
        if not self._store.config.timer_wheel_enable:
            raise SystemFailure(f"The {what} is null")

    @handles(h.GetBrokerHaStatus)
    def ha_status(self, request: Incoming[h.GetBrokerHaStatus]) -> Reply[Empty]:
        """Respond as a master without slaves."""
        client = {
            "activated": False,
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "maxOffset": 0,
            "transferredByteInSecond": 0,
        }
        info = HaRuntimeInfo(ha_client_runtime_info=client, master_commit_log_max_offset=self._store.log.end_offset)
        return Reply(None, info.encode())


class FilterServerProcessor:
    def __init__(self, config: BrokerConfig, servers: FilterServers, registration: Registrar) -> None:
        self._config = config
        self._servers = servers
        self._registration = registration

    @handles(h.RegisterFilterServer)
    def register(self, request: Incoming[h.RegisterFilterServer]) -> Reply[h.FilterServerRegistered]:
        before = self._servers.addresses()
        self._servers.register(request.connection, request.header.filter_server_addr)
        if self._servers.addresses() != before:
            self._registration.register_soon()
        return Reply(h.FilterServerRegistered(broker_name=self._config.broker_name, broker_id=self._config.broker_id))

    @handles(h.RegisterMessageFilterClass)
    def upload(self, request: Incoming[h.RegisterMessageFilterClass]) -> Reply[Empty]:
        raise NoPermission(REFUSED[h.RegisterMessageFilterClass.code])


class NamesrvNoticeProcessor:
    @handles(NotifyMinBrokerIdChange)
    def min_broker_id_changed(self, request: Incoming[NotifyMinBrokerIdChange]) -> Reply[Empty]:
        """Log the change; only slaves act on it, and this broker is a master."""
        header = request.header
        log.info("the minimum broker id is now %s at %s", header.min_broker_id, header.min_broker_addr)
        return Reply()
