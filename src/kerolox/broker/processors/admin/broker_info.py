"""State of the broker, cleanup on request, and requests of filter servers."""

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
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.offsets import BrokerStatsData, StatsItem
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as h
from kerolox.wire.reply import Reply


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
