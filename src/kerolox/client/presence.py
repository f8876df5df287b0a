"""Who is here: the members of a session, and the heartbeats that tell brokers of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kerolox.client.errors import GroupTaken
from kerolox.client.members import ConsumerMember, ProducerMember
from kerolox.client.routes import MASTER_ID, Routes
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError, NoPermission, RemotingError
from kerolox.remoting.client import Client
from kerolox.remoting.connection import Connection
from kerolox.wire.bodies.clients import ConsumerData, HeartbeatData, ProducerData
from kerolox.wire.command import Command
from kerolox.wire.header import Request
from kerolox.wire.headers.clients import HeartBeat, UnregisterClient

log = logging.getLogger(__name__)

M = TypeVar("M")

Ask = Callable[[str, Request[Any], bytes], Awaitable[Command]]


class Presence:
    """A broker knows a client by its connection: a new one must be introduced."""

    def __init__(self, client_id: str, routes: Routes, client: Client, ask: Ask) -> None:
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        self.broker_versions: dict[str, int] = {}
        # Who of them did not let us in when it was last told.
        self._refusals: dict[str, NoPermission] = {}
        self._client_id = client_id
        self._routes = routes
        self._client = client
        self._ask = ask
        # Of each broker the connection on which it has been told of all who are here.
        self._introduced: dict[str, Connection] = {}
        # Who may have heard of us.
        self._told: set[str] = set()
        # Of each broker the heartbeats it has not answered yet.
        self._under_way: dict[str, set[asyncio.Task[None]]] = {}
        self._is_due = False

    def add(self, members: dict[str, M], kind: str, group: str, member: M) -> None:
        if group in members:
            raise GroupTaken(
                f"client id {self._client_id} already has a {kind} of group {group!r}: use another instance_name"
            )
        members[group] = member
        # Brokers know the others, and not yet this one. A heartbeat under way notes it elsewhere.
        self._introduced = {}

    async def remove_producer(self, group: str) -> None:
        if self.producers.pop(group, None) is not None:
            await self._unregister(UnregisterClient(client_id=self._client_id, producer_group=group))

    async def remove_consumer(self, group: str) -> None:
        if self.consumers.pop(group, None) is not None:
            await self._unregister(UnregisterClient(client_id=self._client_id, consumer_group=group))

    async def _unregister(self, request: UnregisterClient) -> None:
        # Also those that no route names any more: they count us until they are told.
        await asyncio.gather(*(self._part_from(address, request) for address in list(self._told)))

    async def _part_from(self, address: str, request: UnregisterClient) -> None:
        # Java's broker takes heartbeats and farewells in threads of their own, and makes a new group's topic before
        # it counts the member. A heartbeat that is overtaken would leave a member whom nobody misses for two minutes,
        # and a share of the queues that nobody reads.
        if under_way := self._under_way.get(address):
            await asyncio.wait(under_way)
        if self._client.is_connected(address):
            await self._tell(address, request, b"")
        else:
            # With the connection it has forgotten us.
            self._told.discard(address)

    def needs_heartbeat(self) -> bool:
        """Whether one should be sent soon; once it has said so, not again before that one begins."""
        if self._is_due or not (self.producers or self.consumers):
            return False
        self._is_due = True
        return True

    async def heartbeat(self) -> None:
        self._is_due = False
        addresses = self._addresses()
        self._introduced = {address: known for address, known in self._introduced.items() if address in addresses}
        if not self.producers and not self.consumers:
            return
        body = self._data().encode()
        introduced = self._introduced
        await asyncio.gather(*(self._begin_heartbeat(address, body, introduced) for address in addresses))

    def check_admitted(self) -> None:
        for address, refusal in self._refusals.items():
            raise NoPermission(f"broker {address} does not let this client in: {refusal.remark}", code=refusal.code)

    async def introduce(self) -> None:
        if not all(self._is_introduced(address) for address in self._addresses()):
            await self.heartbeat()

    def is_known_on(self, address: str, connection: Connection) -> bool:
        """Whether a broker need not be told anything on this connection."""
        return self._introduced.get(address) is connection or address not in self._addresses()

    def _is_introduced(self, address: str) -> bool:
        known = self._introduced.get(address)
        return known is not None and not known.is_closed

    def _begin_heartbeat(self, address: str, body: bytes, introduced: dict[str, Connection]) -> asyncio.Task[None]:
        self._told.add(address)
        task = asyncio.create_task(self._heartbeat_to(address, body, introduced), name=f"heartbeat to {address}")
        under_way = self._under_way.setdefault(address, set())
        under_way.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            under_way.discard(task)
            if not under_way and self._under_way.get(address) is under_way:
                del self._under_way[address]

        task.add_done_callback(ended)
        return task

    async def _heartbeat_to(self, address: str, body: bytes, introduced: dict[str, Connection]) -> None:
        try:
            connection = await self._client.connection(address)
        except RemotingError as error:
            log.info("no heartbeat to %s: %s", address, error)
            return
        self._refusals.pop(address, None)
        answer = await self._tell(address, HeartBeat(), body)
        if answer is not None:
            introduced[address] = connection
            self.broker_versions[address] = answer.version

    async def _tell(self, address: str, request: Request[Any], body: bytes) -> Command | None:
        try:
            answer = await self._ask(address, request, body)
        except KeroloxError as error:
            log.info("%s was not told of %s: %s", address, request.code.name, error)
            return None
        if answer.code != ResponseCode.SUCCESS:
            refusal = AnswerError.of(answer.code, answer.remark)
            log.warning("%s refused %s: %s", address, request.code.name, refusal)
            if isinstance(refusal, NoPermission):
                self._refusals[address] = refusal
            return None
        return answer

    def _addresses(self) -> set[str]:
        """Returns who is to be told: masters, and slaves too if somebody consumes."""
        return {
            address
            for members in self._routes.brokers.values()
            for broker_id, address in members.items()
            if broker_id == MASTER_ID or self.consumers
        }

    def _data(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self._client_id,
            consumer_data_set=[
                ConsumerData(
                    consume_from_where=member.consume_from_where,
                    consume_type=member.consume_type,
                    group_name=group,
                    message_model=member.message_model,
                    subscription_data_set=list(member.subscriptions()),
                    unit_mode=member.is_unit,
                )
                for group, member in self.consumers.items()
            ],
            producer_data_set=[ProducerData(group) for group in self.producers],
        )
