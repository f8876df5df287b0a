"""Clusters: their brokers, broker status, write permissions and cleanup."""

from dataclasses import dataclass

from kerolox.admin.targets import Servers
from kerolox.client.session.topic_routes import MASTER_ID
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.offsets import HaRuntimeInfo
from kerolox.wire.bodies.routes import ClusterInfo
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import namesrv as n
from kerolox.wire.headers import replication as r


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker and its runtime info; `error` is set if it did not respond."""

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
        """Messages put per second, over the last ten seconds."""
        return _first_number(self.info.get("putTps", ""))

    @property
    def out_tps(self) -> float:
        """Messages delivered per second, over the last ten seconds."""
        return _first_number(self.info.get("getTransferredTps") or self.info.get("getTransferedTps", ""))

    @property
    def in_today(self) -> int:
        """Messages put since midnight."""
        return self._count("msgPutTotalTodayNow") - self._count("msgPutTotalTodayMorning")

    @property
    def out_today(self) -> int:
        """Messages delivered since midnight."""
        return self._count("msgGetTotalTodayNow") - self._count("msgGetTotalTodayMorning")

    def _count(self, key: str) -> int:
        text = self.info.get(key, "0")
        return int(text) if text.isdecimal() else 0


class Clusters:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    # Queries

    async def info(self) -> ClusterInfo:
        """Return the brokers and clusters that NameServers list."""
        return await self._servers.cluster_info()

    async def brokers(self) -> list[BrokerStatus]:
        """Return the status of all brokers, including slaves and those that do not respond."""
        info = await self._servers.cluster_info()
        found = [
            (cluster, name, broker_id, address)
            for cluster, names in sorted(info.cluster_addr_table.items())
            for name in sorted(names)
            if name in info.broker_addr_table
            for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
        ]
        return await self._servers.gather(found, lambda broker: self._status(*broker))

    async def _status(self, cluster: str, name: str, broker_id: int, address: str) -> BrokerStatus:
        try:
            return BrokerStatus(cluster, name, broker_id, address, await self._runtime_info(address))
        except KeroloxError as error:
            return BrokerStatus(cluster, name, broker_id, address, {}, error)

    async def runtime_info(self, broker: str) -> dict[str, str]:
        """Return the runtime info of a broker, with Java's keys."""
        return await self._runtime_info(await self._servers.address(broker))

    async def _runtime_info(self, address: str) -> dict[str, str]:
        return KVTable.decode((await self._servers.call(address, b.GetBrokerRuntimeInfo())).body).table

    async def ha_status(self, broker: str) -> HaRuntimeInfo:
        """Return the replication status of a broker and its slaves. Needs a 5.x broker."""
        reply = await self._servers.call(await self._servers.address(broker), r.GetBrokerHaStatus())
        return HaRuntimeInfo.decode(reply.body)

    async def reset_master_flush_offset(self, broker: str, offset: int) -> None:
        """Set the end of the master's log that a slave remembers. Needs a 5.x broker."""
        address = await self._servers.address(broker)
        await self._servers.call(address, r.ResetMasterFlushOffset(master_flush_offset=offset))

    # Permissions

    async def wipe_write_permission(self, broker_name: str, *, name_server: str | None = None) -> int:
        """Remove the write permission of a broker's topics in the routes of all NameServers, or one.

        Returns the number of topics. It lasts until the broker registers its topics again, which brokers since 4.9 do
        when their topics change.
        """
        request = n.WipeWritePermOfBroker(broker_name=broker_name)
        if name_server is not None:
            return (await self._servers.call(name_server, request)).fields.wipe_topic_count
        replies = await self._servers.ask_name_servers(request)
        return max(reply.fields.wipe_topic_count for reply in replies.values())

    async def add_write_permission(self, broker_name: str, *, name_server: str | None = None) -> int:
        """Restore the write permission of a broker; return the number of topics. Needs NameServers since 4.9."""
        request = n.AddWritePermOfBroker(broker_name=broker_name)
        if name_server is not None:
            return (await self._servers.call(name_server, request)).fields.add_topic_count
        replies = await self._servers.ask_name_servers(request)
        return max(reply.fields.add_topic_count for reply in replies.values())

    # Cleanup; each method returns the names of the brokers

    async def clean_expired_queues(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Delete the consume queue files whose messages have expired."""
        return await self._request_cleanup(b.CleanExpiredConsumeQueue(), cluster, broker)

    async def clean_unused_topics(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Delete the consume queues of topics that do not exist any more."""
        return await self._request_cleanup(b.CleanUnusedTopic(), cluster, broker)

    async def delete_expired_commit_log(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Delete expired commit log files now, instead of at the configured hour (deleteWhen)."""
        return await self._request_cleanup(b.DeleteExpiredCommitLog(), cluster, broker)

    async def _request_cleanup(self, request: Request[Empty], cluster: str | None, broker: str | None) -> list[str]:
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        return list(await self._servers.ask_brokers(masters, request))


def _first_number(text: str) -> float:
    try:
        return float(text.split(" ")[0])
    except ValueError:
        return 0.0
