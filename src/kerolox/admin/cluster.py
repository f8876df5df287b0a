"""The cluster: its brokers, how they are and what they carry, and what keeps their stores clean."""

from dataclasses import dataclass

from kerolox.admin.servers import Servers
from kerolox.client.routes import MASTER_ID
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.offsets import HaRuntimeInfo
from kerolox.wire.bodies.routes import ClusterInfo
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import namesrv as n


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One broker, and what it says of itself; if it did not answer, why."""

    cluster: str
    name: str
    broker_id: int
    address: str
    # Under Java's keys, such as putTps and commitLogMaxOffset.
    info: dict[str, str]
    error: KeroloxError | None = None

    @property
    def version(self) -> str:
        return self.info.get("brokerVersionDesc", "")

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID

    @property
    def in_tps(self) -> float:
        """Messages written for a second, over the last ten."""
        return _first_number(self.info.get("putTps", ""))

    @property
    def out_tps(self) -> float:
        """Messages handed out for a second, over the last ten."""
        return _first_number(self.info.get("getTransferredTps") or self.info.get("getTransferedTps", ""))

    @property
    def in_today(self) -> int:
        """Messages written since midnight."""
        return self._count("msgPutTotalTodayNow") - self._count("msgPutTotalTodayMorning")

    @property
    def out_today(self) -> int:
        """Messages handed out since midnight."""
        return self._count("msgGetTotalTodayNow") - self._count("msgGetTotalTodayMorning")

    def _count(self, key: str) -> int:
        text = self.info.get(key, "0")
        return int(text) if text.isdecimal() else 0


class Clusters:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    # Looking

    async def info(self) -> ClusterInfo:
        """Returns the brokers and clusters that NameServers list."""
        return await self._servers.cluster_info()

    async def brokers(self) -> list[BrokerStatus]:
        """Returns all brokers, slaves too, each with what it says of itself. One that does not answer says why."""
        info = await self._servers.cluster_info()
        found = [
            (cluster, name, broker_id, address)
            for cluster, names in sorted(info.cluster_addr_table.items())
            for name in sorted(names)
            if name in info.broker_addr_table
            for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
        ]
        return await self._servers.gathered(found, lambda broker: self._status(*broker))

    async def _status(self, cluster: str, name: str, broker_id: int, address: str) -> BrokerStatus:
        try:
            return BrokerStatus(cluster, name, broker_id, address, await self._runtime_info(address))
        except KeroloxError as error:
            return BrokerStatus(cluster, name, broker_id, address, {}, error)

    async def runtime_info(self, broker: str) -> dict[str, str]:
        """Returns what a broker says of itself, under Java's keys."""
        return await self._runtime_info(await self._servers.address(broker))

    async def _runtime_info(self, address: str) -> dict[str, str]:
        return KVTable.decode((await self._servers.call(address, b.GetBrokerRuntimeInfo())).body).table

    async def ha_status(self, broker: str) -> HaRuntimeInfo:
        """Returns how far the slaves of a broker are behind. Brokers of 5.x only."""
        reply = await self._servers.call(await self._servers.address(broker), b.GetBrokerHaStatus())
        return HaRuntimeInfo.decode(reply.body)

    # Permissions

    async def wipe_write_permission(self, broker_name: str, *, name_server: str | None = None) -> int:
        """Has all NameServers, or one, tell that nothing is to be sent to a broker; returns of how many topics.

        It lasts until the broker next tells them otherwise, which one of 4.9 and later does when its topics change.
        """
        request = n.WipeWritePermOfBroker(broker_name=broker_name)
        if name_server is not None:
            return (await self._servers.call(name_server, request)).fields.wipe_topic_count
        replies = await self._servers.ask_name_servers(request)
        return max(reply.fields.wipe_topic_count for reply in replies.values())

    async def add_write_permission(self, broker_name: str, *, name_server: str | None = None) -> int:
        """Takes that back; returns of how many topics. NameServers of 4.9 and later."""
        request = n.AddWritePermOfBroker(broker_name=broker_name)
        if name_server is not None:
            return (await self._servers.call(name_server, request)).fields.add_topic_count
        replies = await self._servers.ask_name_servers(request)
        return max(reply.fields.add_topic_count for reply in replies.values())

    # Cleaning; each returns the names of the brokers that did it

    async def clean_expired_queues(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Deletes what is left of queues whose messages are gone."""
        return await self._order(b.CleanExpiredConsumeQueue(), cluster, broker)

    async def clean_unused_topics(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Deletes the queues of topics that are no more."""
        return await self._order(b.CleanUnusedTopic(), cluster, broker)

    async def delete_expired_commit_log(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Deletes files of the log that are older than they are to be kept, without waiting for the hour of it."""
        return await self._order(b.DeleteExpiredCommitLog(), cluster, broker)

    async def _order(self, request: Request[Empty], cluster: str | None, broker: str | None) -> list[str]:
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        return list(await self._servers.ask_brokers(masters, request))


def _first_number(text: str) -> float:
    try:
        return float(text.split(" ")[0])
    except ValueError:
        return 0.0
