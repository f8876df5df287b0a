"""A session: what the producers and consumers of one client id share, and what speaks for them to brokers."""

import asyncio
import logging
import random
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kerolox.auth.signing import Credentials
from kerolox.client.calls import Calls
from kerolox.client.errors import ClientError, GroupTaken, WrongState
from kerolox.client.inbound import Inbound
from kerolox.client.members import ConsumerMember, ProducerMember
from kerolox.client.messages import Received
from kerolox.client.name_servers import NameServers
from kerolox.client.options import Options
from kerolox.client.routes import MASTER_ID, Routes
from kerolox.errors import AnswerError, ConnectFailed, KeroloxError, RemotingError
from kerolox.remoting.client import Client
from kerolox.remoting.connection import Connection
from kerolox.remoting.routes import Routes as Answers
from kerolox.runtime.service import Periodic, Supervisor
from kerolox.wire.bodies.clients import ConsumerData, ConsumerList, HeartbeatData, ProducerData
from kerolox.wire.bodies.routes import TopicRouteData
from kerolox.wire.command import Command
from kerolox.wire.header import Header, Request
from kerolox.wire.headers.clients import GetConsumerListByGroup, HeartBeat, UnregisterClient
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Header)
M = TypeVar("M")

_sessions: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Session]]" = weakref.WeakKeyDictionary()


class Session:
    """One for each client id of an event loop; `acquire` it, and `release` it when done."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.client_id = options.client_id
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        # Who waits for the reply to a request, by its correlation id.
        self.replies: dict[str, asyncio.Future[Received]] = {}
        self.routes = Routes(self._fetch_route)
        self.routes.on_brokers = self.heartbeat_soon
        self.name_servers = NameServers(options.name_servers)
        self._client = Client(
            Answers(Inbound(self)), tls=options.tls_context, connect_timeout_seconds=options.connect_timeout_seconds
        )
        credentials = None
        if options.access_key is not None and options.secret_key is not None:
            credentials = Credentials(options.access_key, options.secret_key, options.security_token)
        self._calls = Calls(self._client, credentials)
        # Of each broker the connection that has carried a heartbeat.
        self._introduced: dict[str, Connection] = {}
        # What brokers said of their version when they took a heartbeat.
        self.broker_versions: dict[str, int] = {}
        self._users = 0
        self._is_closed = False
        self._work: set[asyncio.Task[None]] = set()
        self._is_heartbeat_due = False
        self._supervisor = Supervisor(
            Periodic(
                "routes",
                seconds=options.poll_name_server_interval_seconds,
                job=self.routes.refresh_all,
                clock=options.clock,
            ),
            Periodic(
                "heartbeat",
                seconds=options.heartbeat_broker_interval_seconds,
                first_seconds=1,
                job=self.heartbeat,
                clock=options.clock,
            ),
        )

    # Its life

    @classmethod
    async def acquire(cls, options: Options) -> "Session":
        """Returns the session of this client id, which is begun if nobody has it yet."""
        sessions = _sessions.setdefault(asyncio.get_running_loop(), {})
        client_id = options.client_id
        session = sessions.get(client_id)
        if session is None:
            session = sessions[client_id] = cls(options)
            await session._supervisor.__aenter__()
        elif session.options != options:
            raise ClientError(f"client id {client_id} is in use with other options: give it another instance_name")
        session._users += 1
        return session

    async def release(self) -> None:
        """Gives it back; the last one closes it."""
        self._users -= 1
        if self._users > 0 or self._is_closed:
            return
        self._is_closed = True
        sessions = _sessions.get(asyncio.get_running_loop(), {})
        if sessions.get(self.client_id) is self:
            del sessions[self.client_id]
        await self._supervisor.__aexit__(None, None, None)
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self.routes.close()
        self._calls.close()
        await self._client.close()

    def run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Has work of the session done in the background; what it raises is logged, and it ends with the session."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._work.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)

    # Asking

    async def call(
        self, address: str, request: Request[A], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Reply[A]:
        """Returns the answer of the server at `address`; AnswerError if not SUCCESS, RemotingError if none comes."""
        connection, left = await self._connected(address, timeout_seconds)
        return await self._calls.call(connection, request, body, left)

    async def ask(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Command:
        """Returns the answer as it came, whatever its code; RemotingError if none comes."""
        connection, left = await self._connected(address, timeout_seconds)
        return await self._calls.ask(connection, request, body, left)

    async def ask_with(
        self, address: str, frame: Callable[[int], bytes], name: str, *, timeout_seconds: float
    ) -> Command:
        """The same of a request that is made into a frame by the caller, who also signs it if `is_signing`."""
        connection = self._client.connected(address)
        if connection is None:
            connection, timeout_seconds = await self._connected(address, timeout_seconds)
        return await self._calls.ask_with(connection, frame, name, timeout_seconds)

    @property
    def is_signing(self) -> bool:
        return self.options.access_key is not None

    async def oneway(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> None:
        connection, left = await self._connected(address, timeout_seconds)
        await self._calls.oneway(connection, request, body, left)

    async def _connected(self, address: str, seconds: float) -> tuple[Connection, float]:
        """Returns the connection, and how many of the seconds are left."""
        connection = self._client.connected(address)
        if connection is not None:
            return connection, seconds
        if self._is_closed:
            raise WrongState(f"the session of client id {self.client_id} is closed")
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            async with asyncio.timeout(seconds):
                connection = await self._client.connection(address)
        except TimeoutError as error:
            raise ConnectFailed(f"no connection to {address} within {seconds:.3g} s") from error
        if self._introduced.get(address) is not connection and address in self._heartbeat_addresses():
            # A broker forgets us with the connection.
            self.heartbeat_soon()
        return connection, max(0.001, seconds - (loop.time() - start))

    async def _fetch_route(self, topic: str) -> TopicRouteData:
        async def ask(address: str, seconds: float) -> TopicRouteData:
            reply = await self.call(address, GetRouteInfoByTopic(topic=topic), timeout_seconds=seconds)
            return TopicRouteData.decode(reply.body)

        return await self.name_servers.ask(ask, timeout_seconds=self.options.mq_client_api_timeout_seconds)

    # Members

    def add_producer(self, group: str, member: ProducerMember) -> None:
        """Takes a producer in; GroupTaken if there is one of its group. `heartbeat` tells the brokers."""
        self._add(self.producers, "producer", group, member)

    def add_consumer(self, group: str, member: ConsumerMember) -> None:
        """Takes a consumer in; GroupTaken if there is one of its group. `heartbeat` tells the brokers."""
        self._add(self.consumers, "consumer", group, member)

    def _add(self, members: dict[str, M], kind: str, group: str, member: M) -> None:
        if group in members:
            raise GroupTaken(
                f"client id {self.client_id} already has a {kind} of group {group!r}: use another instance_name"
            )
        members[group] = member
        # Brokers know the others, and not yet this one.
        self._introduced = {}

    async def remove_producer(self, group: str) -> None:
        """Lets a producer go, and tells the brokers."""
        if self.producers.pop(group, None) is not None:
            await self._unregister(UnregisterClient(client_id=self.client_id, producer_group=group))

    async def remove_consumer(self, group: str) -> None:
        """Lets a consumer go, and tells the brokers, who tell the rest of its group."""
        if self.consumers.pop(group, None) is not None:
            await self._unregister(UnregisterClient(client_id=self.client_id, consumer_group=group))

    async def _unregister(self, request: UnregisterClient) -> None:
        # Who has never heard of us need not be told that we leave.
        addresses = [address for address in self._all_addresses() if self._client.is_connected(address)]
        await asyncio.gather(*(self._tell(address, request, b"") for address in addresses))

    async def _tell(self, address: str, request: Request[Any], body: bytes) -> Command | None:
        try:
            answer = await self.ask(address, request, body, timeout_seconds=self.options.mq_client_api_timeout_seconds)
        except KeroloxError as error:
            log.info("%s was not told of %s: %s", address, request.code.name, error)
            return None
        if answer.code != 0:
            log.warning("%s refused %s: %s", address, request.code.name, AnswerError.of(answer.code, answer.remark))
            return None
        return answer

    # Heartbeats

    async def heartbeat(self) -> None:
        """Tells all brokers of known routes who is here; slaves too, if somebody consumes."""
        self._is_heartbeat_due = False
        addresses = self._heartbeat_addresses()
        self._introduced = {address: known for address, known in self._introduced.items() if address in addresses}
        if not self.producers and not self.consumers:
            return
        body = self._heartbeat_data().encode()
        introduced = self._introduced
        await asyncio.gather(*(self._heartbeat_to(address, body, introduced) for address in addresses))

    def heartbeat_soon(self) -> None:
        """Has a heartbeat sent without waiting for it; several wishes of one moment are one."""
        if self._is_closed or self._is_heartbeat_due or not (self.producers or self.consumers):
            return
        self._is_heartbeat_due = True
        self.run(self.heartbeat(), "heartbeat")

    async def _heartbeat_to(self, address: str, body: bytes, introduced: dict[str, Connection]) -> None:
        try:
            connection = await self._client.connection(address)
        except RemotingError as error:
            log.info("no heartbeat to %s: %s", address, error)
            return
        answer = await self._tell(address, HeartBeat(), body)
        if answer is not None:
            introduced[address] = connection
            self.broker_versions[address] = answer.version

    async def introduce(self) -> None:
        """Returns when all brokers of known routes have been told who is here; at once if they have."""
        for address in self._heartbeat_addresses():
            known = self._introduced.get(address)
            if known is None or known.is_closed:
                await self.heartbeat()
                return

    def _all_addresses(self) -> set[str]:
        return {address for members in self.routes.brokers.values() for address in members.values()}

    def _heartbeat_addresses(self) -> set[str]:
        return {
            address
            for members in self.routes.brokers.values()
            for broker_id, address in members.items()
            if broker_id == MASTER_ID or self.consumers
        }

    def _heartbeat_data(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self.client_id,
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

    # Asking on behalf of members

    async def consumer_ids(self, topic: str, group: str) -> list[str]:
        """Returns the client ids of a group as any broker of the topic knows them; none if it knows nobody.

        RemotingError if no broker answers; TopicNotFound if the topic is unknown.
        """
        route = await self.routes.get(topic)
        addresses = [members.get(MASTER_ID) or min(members.items())[1] for members in route.brokers.values() if members]
        random.shuffle(addresses)
        failure: RemotingError | None = None
        for address in addresses:
            try:
                reply = await self.call(
                    address,
                    GetConsumerListByGroup(consumer_group=group),
                    timeout_seconds=self.options.mq_client_api_timeout_seconds,
                )
                return sorted(ConsumerList.decode(reply.body).consumer_id_list)
            except AnswerError as error:
                log.debug("%s knows nobody of group %s: %s", address, group, error)
                return []
            except RemotingError as error:
                failure = error
        if failure is None:
            return []
        raise failure
