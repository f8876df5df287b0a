"""A store directory used by Java: a broker on it, and programs that send, consume and query."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kerolox.errors import TopicNotFound
from kerolox.message.records.record import decode
from kerolox.remoting.client import Client
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic
from tests.apache.processes import Process, java_command, run_java, running, temporary_home
from tests.apache.servers import broker, broker_port
from tests.compat.carried import broker_properties, keys_of
from tests.compat.extending import OP_TOPIC, TRANSACTION_GROUP
from tests.compat.sent import Sent, parse
from tests.compat.served import Contents, Places, Served

TOPIC = "carried"
_DECIDED = ("committed", "rolled back")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All data that a broker serves at one time."""

    contents: Contents
    places: Places


@dataclass(frozen=True, slots=True)
class Serving:
    """A running broker and its client."""

    process: Process
    served: Served

    async def snapshot(self) -> Snapshot:
        """Reads all records by queue, then by id, which must give the same, and by key."""
        contents = await self.served.by_queue()
        for records in contents.values():
            for record in records:
                assert await self.served.by_id(decode(record).physical_offset) == record
        return Snapshot(contents, await self.served.by_key(keys_of(contents)))

    async def decided(self, sent: Sequence[Sent]) -> None:
        """Returns when all op messages are stored: producers do not wait for them, and 5.x batches them."""
        wanted = sum(one.kind in _DECIDED for one in sent)
        async with asyncio.timeout(60):
            while await self._decided_count() < wanted:
                await asyncio.sleep(0.2)

    async def _decided_count(self) -> int:
        contents = await self.served.by_queue()
        bodies = [decode(record).body for record in contents.get((OP_TOPIC, 0), [])]
        return sum(len([word for word in body.split(b",") if word]) for body in bodies)


@dataclass(frozen=True, slots=True)
class JavaStore:
    """Runs Java of one version on a directory, always on the same port, so that message ids stay valid."""

    version: str
    namesrv: str
    root: Path
    host: str = "127.0.0.1"
    # Of the virtual machines.
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=broker_port)

    @property
    def has_timers(self) -> bool:
        return self.version.startswith("5")

    @contextlib.asynccontextmanager
    async def serving(self, **properties: str) -> AsyncIterator[Serving]:
        """A broker on the directory; shut down cleanly at the end, unless it was killed."""
        wanted = broker_properties(self.root, **properties)
        async with Client() as client:
            with broker(self.version, self.namesrv, port=self.port, properties=wanted, settings=self.settings) as it:
                await registered(client, self.namesrv, "TBW102" if "autoCreateTopicEnable" not in properties else TOPIC)
                yield Serving(it, Served(client, f"[{self.host}]:{self.port}", self.root))
                if it.is_running:
                    it.terminate()

    def send(self, prefix: str, count: int) -> list[Sent]:
        """Sends some messages of every kind, and `count` plain ones."""
        completed = run_java(self.version, *self._kinds(prefix, count), settings=self.settings)
        assert completed.stdout.endswith("sent\n"), completed
        return parse(completed.stdout.splitlines())

    @contextlib.contextmanager
    def sending(self, prefix: str, count: int) -> Iterator[Process]:
        """Sends in the background."""
        with temporary_home() as home:
            command = java_command(self.version, home, *self._kinds(prefix, count), settings=self.settings)
            with running(command, home) as process:
                yield process

    def _kinds(self, prefix: str, count: int) -> tuple[str, ...]:
        return "Kinds.java", self.namesrv, TOPIC, prefix, str(count), str(self.has_timers).lower()

    def collect(self, group: str, count: int) -> dict[str, str]:
        """Consumes the topic until `count` messages or one minute; returns unique key → digest."""
        arguments = (self.namesrv, TOPIC, group, str(count), "60")
        completed = run_java(self.version, "Collect.java", *arguments, settings=self.settings)
        lines = completed.stdout.splitlines()
        assert lines[-1:], completed
        assert lines[-1].startswith("collected "), completed
        return {unique_key: digest for unique_key, _, _, digest in (line.split("\t") for line in lines[:-1])}

    @contextlib.contextmanager
    def settling(self) -> Iterator[Process]:
        """A producer that commits every checked transaction, and prints `asked` with the unique key."""
        with temporary_home() as home:
            command = java_command(self.version, home, "Settle.java", self.namesrv, TOPIC, TRANSACTION_GROUP)
            with running(command, home) as process:
                process.wait_for("ready")
                yield process

    def query(self, questions: Sequence[str]) -> list[str]:
        """Queries like mqadmin, by `id ...` or `key ...`; returns one line of offset ids and digests each."""
        with temporary_home() as home:
            lines = home / "questions.txt"
            lines.write_text("".join(f"{question}\n" for question in questions))
            completed = run_java(self.version, "Query.java", self.namesrv, TOPIC, str(lines), timeout_seconds=240)
        assert completed.code == 0, completed
        return completed.stdout.splitlines()


async def registered(client: Client, namesrv: str, topic: str = "TBW102") -> None:
    """Returns when a broker that has the topic is registered."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.call(namesrv, GetRouteInfoByTopic(topic=topic))
                return
            except TopicNotFound:
                await asyncio.sleep(0.05)
