"""A session: what the producers and consumers of one client id share, and what speaks for them to brokers."""

import asyncio
import logging
import random
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kerolox.auth.signing import Credentials
from kerolox.client.calls import LANGUAGE, Calls
from kerolox.client.errors import ClientError, WrongState
from kerolox.client.inbound import Inbound
from kerolox.client.members import ConsumerMember, ProducerMember
from kerolox.client.messages import Received
from kerolox.client.name_server_list import REFRESH_SECONDS, fetched, refresh
from kerolox.client.name_servers import NameServers
from kerolox.client.options import Options
from kerolox.client.presence import Presence
from kerolox.client.routes import MASTER_ID, Routes
from kerolox.errors import AnswerError, ConnectFailed, RemotingError
from kerolox.remoting.client import Client
from kerolox.remoting.connection import Connection
from kerolox.remoting.routes import Routes as Answers
from kerolox.runtime.service import Periodic, Supervisor
from kerolox.wire.bodies.clients import ConsumerList
from kerolox.wire.bodies.routes import TopicRouteData
from kerolox.wire.command import Command
from kerolox.wire.header import Header, Request
from kerolox.wire.headers.clients import GetConsumerListByGroup
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Header)

_sessions: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Session]]" = weakref.WeakKeyDictionary()


class Session:
    """One for each client id of an event loop; `acquire` it, and `release` it when done."""

    def __init__(self, options: Options, name_servers: list[str]) -> None:
        self.options = options
        self.client_id = options.client_id
        # Who waits for the reply to a request, by its correlation id.
        self.replies: dict[str, asyncio.Future[Received]] = {}
        self.routes = Routes(self._fetch_route)
        self.routes.on_brokers = self.heartbeat_soon
        self.name_servers = NameServers(name_servers)
        self._client = Client(
            Answers(Inbound(self)), tls=options.tls_context, connect_timeout_seconds=options.connect_timeout_seconds
        )
        credentials = None
        if options.access_key is not None and options.secret_key is not None:
            credentials = Credentials(options.access_key, options.secret_key, options.security_token)
        self._calls = Calls(self._client, credentials)
        self._presence = Presence(self.client_id, self.routes, self._client, self._ask_patiently)
        self.producers, self.consumers = self._presence.producers, self._presence.consumers
        self._users = 0
        self._is_closed = False
        self._work: set[asyncio.Task[None]] = set()
        self._supervisor = Supervisor(
            *self._list_refresh(),
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
        """Returns the session of this client id, which is begun if nobody has it yet.

        ConnectFailed if NameServers are to be asked for, and cannot be.
        """
        sessions = _sessions.setdefault(asyncio.get_running_loop(), {})
        client_id = options.client_id
        found = options.name_servers
        if options.namesrv_url is not None and client_id not in sessions:
            found = await fetched(options.namesrv_url, options.mq_client_api_timeout_seconds)
        session = sessions.get(client_id)
        if session is None:
            session = sessions[client_id] = cls(options, found)
            await session._supervisor.__aenter__()
        elif session.options != options:
            raise ClientError(f"client id {client_id} is in use with other options: give it another instance_name")
        session._users += 1
        return session

    def _list_refresh(self) -> list[Periodic]:
        url, options = self.options.namesrv_url, self.options
        if url is None:
            return []

        async def job() -> None:
            await refresh(self.name_servers, url, options.mq_client_api_timeout_seconds)

        return [Periodic("NameServers", seconds=REFRESH_SECONDS, job=job, clock=options.clock)]

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
        if self._is_closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._work.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)

    # Asking

    async def call(
        self,
        address: str,
        request: Request[A],
        body: bytes = b"",
        *,
        timeout_seconds: float = 3.0,
        language: str = LANGUAGE,
    ) -> Reply[A]:
        """Returns the answer of the server at `address`; AnswerError if not SUCCESS, RemotingError if none comes.

        Who asks for somebody else says in which `language` that one is written.
        """
        connection, left = await self._connected(address, timeout_seconds)
        return await self._calls.call(connection, request, body, left, language)

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
        if not self._presence.is_known_on(address, connection):
            # A broker forgets us with the connection.
            self.heartbeat_soon()
        return connection, max(0.001, seconds - (loop.time() - start))

    async def _ask_patiently(self, address: str, request: Request[Any], body: bytes) -> Command:
        return await self.ask(address, request, body, timeout_seconds=self.options.mq_client_api_timeout_seconds)

    async def _fetch_route(self, topic: str) -> TopicRouteData:
        async def ask(address: str, seconds: float) -> TopicRouteData:
            reply = await self.call(address, GetRouteInfoByTopic(topic=topic), timeout_seconds=seconds)
            return TopicRouteData.decode(reply.body)

        return await self.name_servers.ask(ask, timeout_seconds=self.options.mq_client_api_timeout_seconds)

    # Members

    def add_producer(self, group: str, member: ProducerMember) -> None:
        """Takes a producer in; GroupTaken if there is one of its group. `heartbeat` tells the brokers."""
        self._presence.add(self.producers, "producer", group, member)

    def add_consumer(self, group: str, member: ConsumerMember) -> None:
        """Takes a consumer in; GroupTaken if there is one of its group. `heartbeat` tells the brokers."""
        self._presence.add(self.consumers, "consumer", group, member)

    async def remove_producer(self, group: str) -> None:
        """Lets a producer go, and tells the brokers."""
        await self._presence.remove_producer(group)

    async def remove_consumer(self, group: str) -> None:
        """Lets a consumer go, and tells the brokers, who tell the rest of its group."""
        await self._presence.remove_consumer(group)

    async def heartbeat(self) -> None:
        """Tells all brokers of known routes who is here; slaves too, if somebody consumes."""
        await self._presence.heartbeat()

    def check_admitted(self) -> None:
        """Raises NoPermission if a broker has refused the last heartbeat: for wrong keys, or for want of rights."""
        self._presence.check_admitted()

    def heartbeat_soon(self) -> None:
        """Has a heartbeat sent without waiting for it; several wishes of one moment are one."""
        if not self._is_closed and self._presence.needs_heartbeat():
            self.run(self._presence.heartbeat(), "heartbeat")

    async def introduce(self) -> None:
        """Returns when all brokers of known routes have been told who is here; at once if they have."""
        await self._presence.introduce()

    @property
    def broker_versions(self) -> dict[str, int]:
        """What brokers said of their version when they took a heartbeat, by address."""
        return self._presence.broker_versions

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
