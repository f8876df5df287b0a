"""Clients that are connected to brokers, and the running info of consumers."""

from collections.abc import Mapping

from kerolox.admin.targets import Servers
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConsumerNotOnline
from kerolox.wire.bodies.clients import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from kerolox.wire.bodies.offsets import ConsumerStatusTable
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo
from kerolox.wire.headers import clients as c
from kerolox.wire.headers.offsets import GetConsumerStatus

# A broker waits ten seconds for the response of a client that it relays a request to.
RELAY_SECONDS = 12.0


class Connections:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def consumers(self, group: str, *, broker: str | None = None) -> ConsumerConnection:
        """Return the consumers of a group and their subscriptions; raise ConsumerNotOnline if there are none.

        Queries all brokers of the group's retry topic, or one broker.
        """
        if broker is None:
            brokers = await self._servers.brokers_of_group(group)
        else:
            brokers = {broker: await self._servers.address(broker)}

        async def ask(address: str) -> ConsumerConnection | None:
            try:
                reply = await self._servers.call(address, c.GetConsumerConnectionList(consumer_group=group))
            except ConsumerNotOnline:
                return None
            return ConsumerConnection.decode(reply.body)

        responses = (await self._servers.each("GET_CONSUMER_CONNECTION_LIST", brokers, ask)).values()
        found = [response for response in responses if response is not None and response.connection_set]
        if not found:
            raise ConsumerNotOnline(
                f"no consumer of group {group!r} is connected to {', '.join(brokers) or 'any broker'}"
            )
        merged = found[0]
        for other in found[1:]:
            merged.subscription_table |= other.subscription_table
        clients = {client.client_id: client for one in found for client in one.connection_set}
        merged.connection_set = sorted(clients.values(), key=lambda client: client.client_id)
        return merged

    async def producers(self, group: str, topic: str) -> list[ClientConnection]:
        """Return the producers of a group that are connected to brokers of a topic."""

        async def ask(address: str) -> list[ClientConnection]:
            try:
                reply = await self._servers.call(address, c.GetProducerConnectionList(producer_group=group))
            except AnswerError as error:
                # The response of a broker that does not know the group.
                if error.code == ResponseCode.SYSTEM_ERROR:
                    return []
                raise
            return ProducerConnection.decode(reply.body).connection_set

        brokers = await self._servers.brokers_of(topic)
        responses = await self._servers.each("GET_PRODUCER_CONNECTION_LIST", brokers, ask)
        clients = {client.client_id: client for response in responses.values() for client in response}
        return sorted(clients.values(), key=lambda client: client.client_id)

    async def all_producers(self, broker: str) -> dict[str, list[ProducerInfo]]:
        """Return group → producers connected to a broker. Needs a broker since 4.9."""
        reply = await self._servers.call(await self._servers.address(broker), c.GetAllProducerInfo())
        return ProducerTable.decode(reply.body).data

    # Running info of consumers

    async def running_info(self, group: str, client_id: str, *, has_stacks: bool = False) -> ConsumerRunningInfo:
        """Return the queues, rates and settings of a consumer, and its thread stacks if `has_stacks`."""
        brokers = await self._servers.brokers_of_group(group)
        return await self._running_info(brokers, group, client_id, has_stacks=has_stacks)

    async def running_infos(self, group: str) -> dict[str, ConsumerRunningInfo]:
        """Return client id → running info of a group; raise ConsumerNotOnline if it has no consumer."""
        clients = [client.client_id for client in (await self.consumers(group)).connection_set]
        brokers = await self._servers.brokers_of_group(group)
        infos = await self._servers.gather(clients, lambda client: self._running_info(brokers, group, client))
        return dict(zip(clients, infos, strict=True))

    async def _running_info(
        self, brokers: Mapping[str, str], group: str, client_id: str, *, has_stacks: bool = False
    ) -> ConsumerRunningInfo:
        request = c.GetConsumerRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=has_stacks)
        return await self._servers.first(brokers, lambda address: self._relay(address, request))

    async def _relay(self, address: str, request: c.GetConsumerRunningInfo) -> ConsumerRunningInfo:
        reply = await self._servers.call(address, request, timeout_seconds=RELAY_SECONDS)
        return ConsumerRunningInfo.decode(reply.body)

    async def offsets(self, group: str, topic: str, client_id: str | None = None) -> dict[str, dict[MessageQueue, int]]:
        """Return client id → offsets in memory of each consumer of a group, or of one."""
        brokers = await self._servers.brokers_of(topic)
        request = GetConsumerStatus(topic=topic, group=group, client_addr=client_id)

        async def ask(address: str) -> dict[str, dict[MessageQueue, int]]:
            reply = await self._servers.call(address, request, timeout_seconds=RELAY_SECONDS)
            return ConsumerStatusTable.decode(reply.body).consumer_table

        return await self._servers.first(brokers, ask)
