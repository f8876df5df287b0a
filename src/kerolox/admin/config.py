"""Runtime settings of brokers and NameServers, and the KV config of NameServers."""

from collections.abc import Mapping

from kerolox.admin.targets import Servers
from kerolox.errors import QueryNotFound
from kerolox.runtime.text import properties
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import namesrv as n

# The KV config namespace with the queues of ordered topics.
ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"


class Configuration:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    # Brokers

    async def broker(self, broker: str) -> dict[str, str]:
        """Return the settings of a broker, with RocketMQ's keys."""
        reply = await self._servers.call(await self._servers.address(broker), b.GetBrokerConfig())
        return properties.parse(reply.body.decode("utf-8", "replace"))

    async def update_broker(
        self, settings: Mapping[str, str], *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Change settings of one broker or of the masters of a cluster; return their names.

        Raises NoPermission for settings that cannot be changed remotely. Brokers may ignore unknown settings.
        """
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        body = properties.format_lines(settings).encode()
        return list(await self._servers.ask_brokers(masters, b.UpdateBrokerConfig(), body))

    # NameServers

    async def name_servers(self) -> dict[str, dict[str, str]]:
        """Return address → settings of each NameServer."""
        replies = await self._servers.ask_name_servers(n.GetNamesrvConfig())
        return {address: properties.parse(reply.body.decode("utf-8", "replace")) for address, reply in replies.items()}

    async def update_name_servers(self, settings: Mapping[str, str]) -> None:
        """Change settings of all NameServers."""
        await self._servers.ask_name_servers(n.UpdateNamesrvConfig(), properties.format_lines(settings).encode())

    # KV config

    async def kv(self, namespace: str, key: str) -> str | None:
        """Return a value; None if there is none."""
        try:
            reply = await self._servers.ask_name_server(n.GetKVConfig(namespace=namespace, key=key))
        except QueryNotFound:
            return None
        return None if reply.header is None else reply.header.value

    async def kv_table(self, namespace: str) -> dict[str, str]:
        """Return all keys and values of a namespace; an empty dict if it does not exist."""
        try:
            reply = await self._servers.ask_name_server(n.GetKVListByNamespace(namespace=namespace))
        except QueryNotFound:
            return {}
        return KVTable.decode(reply.body).table

    async def set_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a value on all NameServers."""
        await self._servers.ask_name_servers(n.PutKVConfig(namespace=namespace, key=key, value=value))

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a value from all NameServers; a missing one is not an error."""
        await self._servers.ask_name_servers(n.DeleteKVConfig(namespace=namespace, key=key))
