"""Settings of brokers and NameServers while they run, and the table of keys and values that NameServers keep."""

from collections.abc import Mapping

from kerolox.admin.servers import Servers
from kerolox.errors import QueryNotFound
from kerolox.runtime import properties
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import namesrv as n

# Where NameServers keep the queues of ordered topics.
ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"


class Configuration:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    # Brokers

    async def broker(self, broker: str) -> dict[str, str]:
        """Returns the settings of a broker under RocketMQ's keys."""
        reply = await self._servers.call(await self._servers.address(broker), b.GetBrokerConfig())
        return properties.parse(reply.body.decode("utf-8", "replace"))

    async def update_broker(
        self, settings: Mapping[str, str], *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Changes settings of one broker or of a cluster's masters, and returns their names.

        What a broker does not let be changed over the wire it refuses with NoPermission; what it does not know it
        may pass over.
        """
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        body = properties.format_lines(settings).encode()
        return list(await self._servers.ask_brokers(masters, b.UpdateBrokerConfig(), body))

    # NameServers

    async def name_servers(self) -> dict[str, dict[str, str]]:
        """Returns the settings of each NameServer by address."""
        replies = await self._servers.ask_name_servers(n.GetNamesrvConfig())
        return {address: properties.parse(reply.body.decode("utf-8", "replace")) for address, reply in replies.items()}

    async def update_name_servers(self, settings: Mapping[str, str]) -> None:
        """Changes settings of all NameServers."""
        await self._servers.ask_name_servers(n.UpdateNamesrvConfig(), properties.format_lines(settings).encode())

    # Keys and values

    async def kv(self, namespace: str, key: str) -> str | None:
        """Returns a value; None if there is none."""
        try:
            reply = await self._servers.ask_name_server(n.GetKVConfig(namespace=namespace, key=key))
        except QueryNotFound:
            return None
        return None if reply.header is None else reply.header.value

    async def kv_table(self, namespace: str) -> dict[str, str]:
        """Returns all keys and values of a namespace; none if there is no such namespace."""
        try:
            reply = await self._servers.ask_name_server(n.GetKVListByNamespace(namespace=namespace))
        except QueryNotFound:
            return {}
        return KVTable.decode(reply.body).table

    async def set_kv(self, namespace: str, key: str, value: str) -> None:
        """Has all NameServers keep a value."""
        await self._servers.ask_name_servers(n.PutKVConfig(namespace=namespace, key=key, value=value))

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Has all NameServers forget a value; one that is not there is no error."""
        await self._servers.ask_name_servers(n.DeleteKVConfig(namespace=namespace, key=key))
