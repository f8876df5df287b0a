"""A session: the connections, routes and heartbeats of one client id (MQClientInstance)."""

import asyncio
import logging
import random
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kerolox.auth.signing import Credentials
from kerolox.client.errors import ClientError, WrongState
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.client.session.broker_requests import BrokerRequests
from kerolox.client.session.heartbeats import Heartbeats
from kerolox.client.session.members import ConsumerMember, ProducerMember
from kerolox.client.session.name_server_discovery import REFRESH_SECONDS, fetch_addresses, refresh
from kerolox.client.session.name_servers import NameServers
from kerolox.client.session.requests import LANGUAGE, Requests
from kerolox.client.session.topic_routes import MASTER_ID, TopicRoutes
from kerolox.errors import AnswerError, ConnectFailed, KeroloxError, RemotingError
from kerolox.remoting.client import Client
from kerolox.remoting.connection import Connection
from kerolox.remoting.router import Router
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

_REFRESH_PAUSE_SECONDS = 1.0

_sessions: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Session]]" = weakref.WeakKeyDictionary()


class Session:
    """One per client id and event loop, shared by reference count: `acquire` it, and `release` it when done."""

    def __init__(self, options: Options, name_servers: list[str]) -> None:
        self.options = options
        self.client_id = options.client_id
        # Requests that wait for a reply message, by correlation id.
        self.pending_replies: dict[str, asyncio.Future[Received]] = {}
        self.routes = TopicRoutes(self._fetch_route, on_brokers_changed=self.heartbeat_soon)
        self.name_servers = NameServers(name_servers)
        self._client = Client(
            Router(BrokerRequests(self)),
            tls=options.tls_context,
            connect_timeout_seconds=options.connect_timeout_seconds,
        )
        credentials = None
        if options.access_key is not None and options.secret_key is not None:
            credentials = Credentials(options.access_key, options.secret_key, options.security_token)
        self._requests = Requests(credentials)
        self._heartbeats = Heartbeats(self.client_id, self.routes, self._client, self._ask_with_api_timeout)
        self.producers, self.consumers = self._heartbeats.producers, self._heartbeats.consumers
        self._user_count = 0
        self._is_closed = False
        self._background_tasks: set[asyncio.Task[None]] = set()
        # Topic → monotonic time before which its route is not fetched again because of an unreachable broker.
        self._next_refresh: dict[str, float] = {}
        self._supervisor = Supervisor(
            *self._discovery_services(),
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

    # Lifecycle

    @classmethod
    async def acquire(cls, options: Options) -> "Session":
        """Return the session of this client id, started if it is not in use yet.

        Raises ConnectFailed if the NameServers come from `namesrv_url` and cannot be fetched.
        """
        sessions = _sessions.setdefault(asyncio.get_running_loop(), {})
        client_id = options.client_id
        found = options.name_servers
        if options.namesrv_url is not None and client_id not in sessions:
            found = await fetch_addresses(options.namesrv_url, options.mq_client_api_timeout_seconds)
        session = sessions.get(client_id)
        if session is None:
            session = sessions[client_id] = cls(options, found)
            await session._supervisor.open()
        elif session.options != options:
            raise ClientError(f"client id {client_id} is in use with other options: give it another instance_name")
        session._user_count += 1
        return session

    def _discovery_services(self) -> list[Periodic]:
        url, options = self.options.namesrv_url, self.options
        if url is None:
            return []

        async def job() -> None:
            await refresh(self.name_servers, url, options.mq_client_api_timeout_seconds)

        return [Periodic("NameServers", seconds=REFRESH_SECONDS, job=job, clock=options.clock)]

    async def release(self) -> None:
        """Give the session back. The last release closes it, and raises if one of its services has failed."""
        self._user_count -= 1
        if self._user_count > 0 or self._is_closed:
            return
        self._is_closed = True
        sessions = _sessions.get(asyncio.get_running_loop(), {})
        if sessions.get(self.client_id) is self:
            del sessions[self.client_id]
        await self._supervisor.stop()
        for task in self._background_tasks:
            task.cancel()
        await asyncio.gather(*self._background_tasks, return_exceptions=True)
        await self.routes.close()
        self._requests.close()
        await self._client.close()
        self._supervisor.settle(None)

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run the coroutine in a task, which is cancelled when the session closes. Its exceptions are logged."""
        if self._is_closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_task_done)

    def _background_task_done(self, task: asyncio.Task[None]) -> None:
        self._background_tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task %r failed", task.get_name(), exc_info=error)

    # Requests

    async def call(
        self,
        address: str,
        request: Request[A],
        body: bytes = b"",
        *,
        timeout_seconds: float = 3.0,
        language: str = LANGUAGE,
    ) -> Reply[A]:
        """Return the decoded response of the server at `address`.

        Raises AnswerError unless the response is SUCCESS, and RemotingError if there is none. `language` is that of
        the client on whose behalf the request is sent.
        """
        connection, left = await self._connect(address, timeout_seconds)
        return await self._requests.call(connection, request, body, left, language)

    async def ask(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Command:
        """Return the response whatever its code; raise RemotingError if there is none."""
        connection, left = await self._connect(address, timeout_seconds)
        return await self._requests.ask(connection, request, body, left)

    async def ask_with_frame(
        self, address: str, frame: Callable[[int], bytes], name: str, *, timeout_seconds: float
    ) -> Command:
        """Like `ask`, with the frame that the caller's function builds from the opaque, signed if `is_signing`."""
        connection = self._client.connected(address)
        if connection is None:
            connection, timeout_seconds = await self._connect(address, timeout_seconds)
        return await self._requests.ask_with_frame(connection, frame, name, timeout_seconds)

    @property
    def is_signing(self) -> bool:
        return self.options.access_key is not None

    async def oneway(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> None:
        connection, left = await self._connect(address, timeout_seconds)
        await self._requests.oneway(connection, request, body, left)

    async def _connect(self, address: str, seconds: float) -> tuple[Connection, float]:
        """Return the connection, and how many of the seconds are left."""
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
        if self._heartbeats.needs_heartbeat_on(address, connection):
            # The broker forgot this client when the previous connection closed.
            self.heartbeat_soon()
        return connection, max(0.001, seconds - (loop.time() - start))

    async def _ask_with_api_timeout(self, address: str, request: Request[Any], body: bytes) -> Command:
        return await self.ask(address, request, body, timeout_seconds=self.options.mq_client_api_timeout_seconds)

    async def _fetch_route(self, topic: str) -> TopicRouteData:
        async def ask(address: str, seconds: float) -> TopicRouteData:
            reply = await self.call(address, GetRouteInfoByTopic(topic=topic), timeout_seconds=seconds)
            return TopicRouteData.decode(reply.body)

        return await self.name_servers.ask(ask, timeout_seconds=self.options.mq_client_api_timeout_seconds)

    # Members

    def add_producer(self, group: str, member: ProducerMember) -> None:
        """Add a producer, known to brokers after the next `heartbeat`; raise GroupTaken if its group has one."""
        self._heartbeats.add(self.producers, "producer", group, member)

    def add_consumer(self, group: str, member: ConsumerMember) -> None:
        """Add a consumer, known to brokers after the next `heartbeat`; raise GroupTaken if its group has one."""
        self._heartbeats.add(self.consumers, "consumer", group, member)

    async def remove_producer(self, group: str) -> None:
        """Remove a producer and unregister it from the brokers."""
        await self._heartbeats.remove_producer(group)

    async def remove_consumer(self, group: str) -> None:
        """Remove a consumer and unregister it from the brokers, which notify the other members of its group."""
        await self._heartbeats.remove_consumer(group)

    async def heartbeat(self) -> None:
        """Send a heartbeat to all masters of known routes, and to slaves too if there is a consumer."""
        await self._heartbeats.heartbeat()

    def check_admitted(self) -> None:
        """Raise NoPermission if a broker refused the last heartbeat, for wrong keys or missing permissions."""
        self._heartbeats.check_admitted()

    def heartbeat_soon(self) -> None:
        """Schedule a heartbeat without waiting for it; calls before it begins share one."""
        if not self._is_closed and self._heartbeats.claim_heartbeat():
            self.run_in_background(self._heartbeats.heartbeat(), "heartbeat")

    def refresh_route_soon(self, topic: str) -> None:
        """Fetch the route of a topic without waiting for it, at most once a second."""
        now = self.options.clock.monotonic()
        if now >= self._next_refresh.get(topic, now):
            self._next_refresh[topic] = now + _REFRESH_PAUSE_SECONDS
            self.run_in_background(self._refresh_route(topic), f"route of {topic}")

    async def _refresh_route(self, topic: str) -> None:
        try:
            await self.routes.refresh(topic)
        except KeroloxError as error:
            log.debug("the route of topic %s was not refreshed: %s", topic, error)

    async def ensure_registered(self) -> None:
        """Send a heartbeat, and wait for it, unless all brokers of known routes have acknowledged all members."""
        await self._heartbeats.ensure_registered()

    @property
    def broker_versions(self) -> dict[str, int]:
        """Broker address → the version in its response to the last heartbeat."""
        return self._heartbeats.broker_versions

    # Queries on behalf of members

    async def consumer_ids(self, topic: str, group: str) -> list[str]:
        """Return the client ids of a group from any broker of the topic; an empty list if it does not know the group.

        Raises RemotingError if no broker responds, TopicNotFound if the topic is unknown.
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
                log.debug("broker %s knows no member of group %s: %s", address, group, error)
                return []
            except RemotingError as error:
                failure = error
        if failure is None:
            return []
        raise failure
