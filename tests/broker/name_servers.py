"""NameServers that write down what they are told, and may be old, slow or silent."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kerolox.broker.announcement import Announcement, Identity
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.registration import Registration
from kerolox.broker.topics import TopicTable
from kerolox.errors import RequestCodeNotSupported, SystemFailure
from kerolox.remoting.client import Client
from kerolox.remoting.routes import Incoming, Routes, handles
from kerolox.remoting.server import Server
from kerolox.runtime.clock import ManualClock, SystemClock
from kerolox.runtime.files import RealDisk
from kerolox.runtime.service import Supervisor
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.registration import RegisterBrokerBody, crc32, decompress
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.header import Empty
from kerolox.wire.headers import namesrv as h
from kerolox.wire.reply import Reply

IDENTITY = Identity("127.0.0.1:10911", "127.0.0.1:10912")


class FakeNameServer:
    """Answers brokers as told to by its flags."""

    def __init__(self) -> None:
        self.headers: list[h.RegisterBroker] = []
        self.bodies: list[RegisterBrokerBody] = []
        self.heartbeats = self.questions = 0
        self.unregistered: list[str] = []
        # How it behaves.
        self.knows_heartbeats = True
        self.hangs = False
        # Set by a test that has heartbeats answered late.
        self.may_answer_heartbeats = asyncio.Event()
        self.may_answer_heartbeats.set()
        self.refuses = False
        self.order: dict[str, str] = {}
        self.answer = h.BrokerRegistered()
        self._server = Server(Routes(self), host="127.0.0.1", port=0, clock=SystemClock())

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
        self.headers.append(request.header)
        is_compressed = request.header.compressed
        body = decompress(request.body, request.version) if is_compressed else RegisterBrokerBody.decode(request.body)
        self.bodies.append(body)
        if self.hangs:
            await asyncio.Event().wait()
        if self.refuses:
            raise SystemFailure("register broker failed")
        return Reply(self.answer, KVTable(self.order).encode() if self.order else b"")

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
    """The registration of a broker that is nothing else, and its clock."""

    def __init__(self, directory: Path, **changes: str) -> None:
        self.clock = ManualClock()
        self.config = BrokerConfig(broker_name="broker-a")
        self.config.update(changes)
        self.topics = TopicTable(self.config, RealDisk(), directory, self.clock)
        self.topics.load()
        self.client = Client(connect_timeout_seconds=1)
        announcement = Announcement(self.config, self.topics, IDENTITY)
        self.registration = Registration(self.config, self.topics, self.client, announcement, self.clock)
        self.topics.on_change = self.registration.register_soon

    async def pass_time(self, seconds: float) -> None:
        """Lets time pass in small steps, so that what was said on the way is answered on the way."""
        for _ in range(round(seconds)):
            await self.clock.advance(1)
            await asyncio.sleep(0.002)


@asynccontextmanager
async def registering(directory: Path, *addresses: str, **changes: str) -> AsyncIterator[Registering]:
    made = Registering(directory, **changes)
    made.registration.update(addresses)
    try:
        async with Supervisor(made.registration):
            yield made
    finally:
        await made.client.close()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)
