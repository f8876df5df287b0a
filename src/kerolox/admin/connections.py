"""Clients: who is connected to the brokers, and what they say of themselves."""

from collections.abc import Mapping

from kerolox.admin.servers import Servers
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

# A broker waits for ten seconds for the client that it asks.
RELAY_SECONDS = 12.0


class Connections:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def consumers(self, group: str, *, broker: str | None = None) -> ConsumerConnection:
        """Returns who consumes for a group, and what they subscribe to; ConsumerNotOnline if nobody does.

        All brokers that the group has been at are asked, or one.
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

        answers = (await self._servers.each("GET_CONSUMER_CONNECTION_LIST", brokers, ask)).values()
        found = [answer for answer in answers if answer is not None and answer.connection_set]
        if not found:
            raise ConsumerNotOnline(f"nobody of group {group!r} is connected to {', '.join(brokers) or 'any broker'}")
        whole = found[0]
        for other in found[1:]:
            whole.subscription_table |= other.subscription_table
        clients = {client.client_id: client for one in found for client in one.connection_set}
        whole.connection_set = sorted(clients.values(), key=lambda client: client.client_id)
        return whole

    async def producers(self, group: str, topic: str) -> list[ClientConnection]:
        """Returns who produces for a group and is connected to brokers of a topic; nobody, if nobody is."""

        async def ask(address: str) -> list[ClientConnection]:
            try:
                reply = await self._servers.call(address, c.GetProducerConnectionList(producer_group=group))
            except AnswerError as error:
                # So brokers say that they do not know the group.
                if error.code == ResponseCode.SYSTEM_ERROR:
                    return []
                raise
            return ProducerConnection.decode(reply.body).connection_set

        brokers = await self._servers.brokers_of(topic)
        answers = await self._servers.each("GET_PRODUCER_CONNECTION_LIST", brokers, ask)
        clients = {client.client_id: client for answer in answers.values() for client in answer}
        return sorted(clients.values(), key=lambda client: client.client_id)

    async def all_producers(self, broker: str) -> dict[str, list[ProducerInfo]]:
        """Returns all producers that are connected to a broker, by group. Brokers of 4.9 and later."""
        reply = await self._servers.call(await self._servers.address(broker), c.GetAllProducerInfo())
        return ProducerTable.decode(reply.body).data

    # What consumers say

    async def running_info(self, group: str, client_id: str, *, has_stacks: bool = False) -> ConsumerRunningInfo:
        """Returns what a consumer says of itself: its queues, rates and settings; and its stacks if wanted."""
        brokers = await self._servers.brokers_of_group(group)
        return await self._running_info(brokers, group, client_id, has_stacks=has_stacks)

    async def running_infos(self, group: str) -> dict[str, ConsumerRunningInfo]:
        """Returns what each consumer of a group says of itself, by client id; ConsumerNotOnline if there is none."""
        clients = [client.client_id for client in (await self.consumers(group)).connection_set]
        brokers = await self._servers.brokers_of_group(group)
        infos = await self._servers.gathered(clients, lambda client: self._running_info(brokers, group, client))
        return dict(zip(clients, infos, strict=True))

    async def _running_info(
        self, brokers: Mapping[str, str], group: str, client_id: str, *, has_stacks: bool = False
    ) -> ConsumerRunningInfo:
        request = c.GetConsumerRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=has_stacks)
        return await self._servers.first(brokers, lambda address: self._relayed(address, request))

    async def _relayed(self, address: str, request: c.GetConsumerRunningInfo) -> ConsumerRunningInfo:
        reply = await self._servers.call(address, request, timeout_seconds=RELAY_SECONDS)
        return ConsumerRunningInfo.decode(reply.body)

    async def offsets(self, group: str, topic: str, client_id: str | None = None) -> dict[str, dict[MessageQueue, int]]:
        """Returns the offsets that each consumer of a group, or one, has in its memory, by client id."""
        brokers = await self._servers.brokers_of(topic)
        request = GetConsumerStatus(topic=topic, group=group, client_addr=client_id)

        async def ask(address: str) -> dict[str, dict[MessageQueue, int]]:
            reply = await self._servers.call(address, request, timeout_seconds=RELAY_SECONDS)
            return ConsumerStatusTable.decode(reply.body).consumer_table

        return await self._servers.first(brokers, ask)
