"""Fake NameServers that record registrations, and may be old, slow or silent."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kerolox.broker.config import BrokerConfig
from kerolox.broker.registration.registrar import Registrar
from kerolox.broker.registration.requests import BrokerAddresses, RegistrationRequests
from kerolox.broker.tables.topics import TopicTable
from kerolox.errors import RequestCodeNotSupported, SystemFailure
from kerolox.remoting.client import Client
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import ManualClock, SystemClock
from kerolox.runtime.files import RealDisk
from kerolox.runtime.service import Supervisor
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.registration import RegisterBrokerBody, crc32, decompress
from kerolox.wire.bodies.routes import QueueData, TopicRouteData
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.header import Empty
from kerolox.wire.headers import namesrv as h
from kerolox.wire.reply import Reply

IDENTITY = BrokerAddresses("127.0.0.1:10911", "127.0.0.1:10912")


class FakeNameServer:
    """Responds to brokers according to its flags."""

    def __init__(self) -> None:
        self.headers: list[h.RegisterBroker] = []
        self.bodies: list[RegisterBrokerBody] = []
        self.heartbeats = self.questions = 0
        self.unregistered: list[str] = []
        # Topics that were registered one by one (217).
        self.single: dict[str, QueueData] = {}
        # Flags.
        self.knows_heartbeats = True
        self.hangs = False
        # Cleared by a test to delay responses to heartbeats.
        self.may_answer_heartbeats = asyncio.Event()
        self.may_answer_heartbeats.set()
        # Delay before a registration is recorded.
        self.delay_seconds = 0.0
        self.refuses = False
        self.order: dict[str, str] = {}
        self.answer = h.BrokerRegistered()
        self._server = Server(Router(self), host="127.0.0.1", port=0, clock=SystemClock())

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def topics(self) -> list[list[str]]:
        """The names of the topics in each registration."""
        return [sorted(body.topic_config_serialize_wrapper.topic_config_table) for body in self.bodies]

    @property
    def versions(self) -> list[DataVersion]:
        return [body.topic_config_serialize_wrapper.data_version for body in self.bodies]

    def forget(self) -> None:
        self.headers.clear()
        self.bodies.clear()

    @handles(h.RegisterBroker)
    async def register(self, request: Incoming[h.RegisterBroker]) -> Reply[h.BrokerRegistered]:
        assert request.header.body_crc32 == crc32(request.body)
        await asyncio.sleep(self.delay_seconds)
        self.headers.append(request.header)
        is_compressed = request.header.compressed
        body = decompress(request.body, request.version) if is_compressed else RegisterBrokerBody.decode(request.body)
        self.bodies.append(body)
        if self.hangs:
            await asyncio.Event().wait()
        if self.refuses:
            raise SystemFailure("register broker failed")
        return Reply(self.answer, KVTable(self.order).encode() if self.order else b"")

    @handles(h.RegisterTopicInNamesrv)
    def register_topic(self, request: Incoming[h.RegisterTopicInNamesrv]) -> Reply[Empty]:
        (self.single[request.header.topic],) = TopicRouteData.decode(request.body).queue_datas
        if self.refuses:
            raise SystemFailure("register topic failed")
        return Reply()

    @handles(h.UnregisterBroker)
    async def unregister(self, request: Incoming[h.UnregisterBroker]) -> Reply[Empty]:
        self.unregistered.append(request.header.broker_addr)
        if self.hangs:
            await asyncio.Event().wait()
        return Reply()

    @handles(h.BrokerHeartbeat)
    async def heartbeat(self, request: Incoming[h.BrokerHeartbeat]) -> Reply[Empty]:
        self.heartbeats += 1
        if self.hangs:
            await asyncio.Event().wait()
        await self.may_answer_heartbeats.wait()
        if not self.knows_heartbeats:
            raise RequestCodeNotSupported(" request type 904 not supported")
        return Reply()

    @handles(h.QueryDataVersion)
    def version(self, request: Incoming[h.QueryDataVersion]) -> Reply[h.DataVersionCompared]:
        self.questions += 1
        is_changed = not self.versions or self.versions[-1] != DataVersion.decode(request.body)
        return Reply(h.DataVersionCompared(changed=is_changed))

    async def __aenter__(self) -> "FakeNameServer":
        await self._server.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.close()


class Registering:
    """The registration of a broker without the rest of it, and its clock."""

    def __init__(self, directory: Path, **changes: str) -> None:
        self.clock = ManualClock()
        self.config = BrokerConfig(broker_name="broker-a")
        self.config.update(changes)
        self.topics = TopicTable(self.config, RealDisk(), directory, self.clock)
        self.topics.load()
        self.client = Client(connect_timeout_seconds=1)
        announcement = RegistrationRequests(self.config, self.topics, IDENTITY)
        self.registration = Registrar(self.config, self.topics, self.client, announcement, self.clock)
        self.topics.set_change_listener(self.registration.register_soon)

    async def pass_time(self, seconds: float) -> None:
        """Advance the clock in small steps, so that requests on the way get their responses."""
        for _ in range(round(seconds)):
            await self.clock.advance(1)
            await asyncio.sleep(0.002)


@asynccontextmanager
async def registering(directory: Path, *addresses: str, **changes: str) -> AsyncIterator[Registering]:
    broker = Registering(directory, **changes)
    broker.registration.update(addresses)
    try:
        async with Supervisor(broker.registration):
            yield broker
    finally:
        await broker.client.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)
