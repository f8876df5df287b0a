"""The producers and consumers of a session, and the heartbeats that register them with brokers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kerolox.client.errors import GroupTaken
from kerolox.client.session.members import ConsumerMember, ProducerMember
from kerolox.client.session.topic_routes import MASTER_ID, TopicRoutes
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


class Heartbeats:
    """Registers the members of a session with the brokers of all known routes.

    A broker forgets a client when its connection closes, so each new connection needs a heartbeat of its own.
    """

    def __init__(self, client_id: str, routes: TopicRoutes, client: Client, ask: Ask) -> None:
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        self.broker_versions: dict[str, int] = {}
        # Broker address → why it refused the last heartbeat.
        self._refusals: dict[str, NoPermission] = {}
        self._client_id = client_id
        self._routes = routes
        self._client = client
        self._ask = ask
        # Broker address → the connection on which the broker has acknowledged all current members.
        self._registered: dict[str, Connection] = {}
        # Brokers that may know this client: a heartbeat to them has at least begun.
        self._notified: set[str] = set()
        # Broker address → its unacknowledged heartbeats.
        self._in_flight: dict[str, set[asyncio.Task[None]]] = {}
        self._is_scheduled = False

    def add(self, members: dict[str, M], kind: str, group: str, member: M) -> None:
        if group in members:
            raise GroupTaken(
                f"client id {self._client_id} already has a {kind} of group {group!r}: use another instance_name"
            )
        members[group] = member
        # No broker knows the new member yet. A heartbeat in flight does not contain it either, and records its
        # acknowledgement in the old dict, which nobody reads any more.
        self._registered = {}

    async def remove_producer(self, group: str) -> None:
        if self.producers.pop(group, None) is not None:
            await self._unregister(UnregisterClient(client_id=self._client_id, producer_group=group))

    async def remove_consumer(self, group: str) -> None:
        if self.consumers.pop(group, None) is not None:
            await self._unregister(UnregisterClient(client_id=self._client_id, consumer_group=group))

    async def _unregister(self, request: UnregisterClient) -> None:
        # Include brokers that have left all routes: they count this client as a member until it unregisters.
        await asyncio.gather(*(self._unregister_from(address, request) for address in list(self._notified)))

    async def _unregister_from(self, address: str, request: UnregisterClient) -> None:
        # Java's broker handles HEART_BEAT and UNREGISTER_CLIENT in different threads, and creates the retry topic of
        # a new group before it registers the member. If UNREGISTER_CLIENT overtook the heartbeat, the broker would
        # keep a dead member for two minutes, with queues assigned to it that are not consumed. So wait first.
        if in_flight := self._in_flight.get(address):
            await asyncio.wait(in_flight)
        if self._client.is_connected(address):
            await self._notify(address, request, b"")
        else:
            # The broker forgot this client when the connection closed.
            self._notified.discard(address)

    def claim_heartbeat(self) -> bool:
        """Return True if the caller should schedule a heartbeat; then False until that heartbeat begins."""
        if self._is_scheduled or not (self.producers or self.consumers):
            return False
        self._is_scheduled = True
        return True

    async def heartbeat(self) -> None:
        self._is_scheduled = False
        addresses = self._addresses()
        self._registered = {address: known for address, known in self._registered.items() if address in addresses}
        if not self.producers and not self.consumers:
            return
        body = self._data().encode()
        registered = self._registered
        await asyncio.gather(*(self._begin_heartbeat(address, body, registered) for address in addresses))

    def check_admitted(self) -> None:
        for address, refusal in self._refusals.items():
            raise NoPermission(f"broker {address} refuses this client: {refusal.remark}", code=refusal.code)

    async def ensure_registered(self) -> None:
        if not all(self._is_registered(address) for address in self._addresses()):
            await self.heartbeat()

    def needs_heartbeat_on(self, address: str, connection: Connection) -> bool:
        """Whether this connection leads to a broker of a known route that has not acknowledged a heartbeat on it."""
        return self._registered.get(address) is not connection and address in self._addresses()

    def _is_registered(self, address: str) -> bool:
        connection = self._registered.get(address)
        return connection is not None and not connection.is_closed

    def _begin_heartbeat(self, address: str, body: bytes, registered: dict[str, Connection]) -> asyncio.Task[None]:
        self._notified.add(address)
        task = asyncio.create_task(self._heartbeat_to(address, body, registered), name=f"heartbeat to {address}")
        in_flight = self._in_flight.setdefault(address, set())
        in_flight.add(task)

        def done(task: asyncio.Task[None]) -> None:
            in_flight.discard(task)
            if not in_flight and self._in_flight.get(address) is in_flight:
                del self._in_flight[address]

        task.add_done_callback(done)
        return task

    async def _heartbeat_to(self, address: str, body: bytes, registered: dict[str, Connection]) -> None:
        try:
            connection = await self._client.connection(address)
        except RemotingError as error:
            log.info("cannot send a heartbeat to broker %s: %s", address, error)
            return
        self._refusals.pop(address, None)
        response = await self._notify(address, HeartBeat(), body)
        if response is not None:
            registered[address] = connection
            self.broker_versions[address] = response.version

    async def _notify(self, address: str, request: Request[Any], body: bytes) -> Command | None:
        """Send the request and return a successful response; None, with a log line, if there is none."""
        try:
            response = await self._ask(address, request, body)
        except KeroloxError as error:
            log.info("%s to broker %s failed: %s", request.code.name, address, error)
            return None
        if response.code != ResponseCode.SUCCESS:
            refusal = AnswerError.of(response.code, response.remark)
            log.warning("broker %s refused %s: %s", address, request.code.name, refusal)
            if isinstance(refusal, NoPermission):
                self._refusals[address] = refusal
            return None
        return response

    def _addresses(self) -> set[str]:
        """Return the brokers that get heartbeats: masters, and slaves too if the session has a consumer."""
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
