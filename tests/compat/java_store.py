"""Runs Java on a store directory: a broker, and programs that send, consume and query."""

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
from tests.compat.broker_reader import BrokerReader, Contents, KeyOffsets
from tests.compat.sent_messages import SentMessage, parse
from tests.compat.shared_store import broker_properties, keys_of
from tests.compat.store_writer import OP_TOPIC, TRANSACTION_GROUP

TOPIC = "carried"
_RESOLVED = ("committed", "rolled back")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All data that a broker serves at one time."""

    contents: Contents
    key_offsets: KeyOffsets


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A running Java broker, and a reader of its messages."""

    process: Process
    reader: BrokerReader

    async def snapshot(self) -> Snapshot:
        """Read all records by queue and by key, and check that reading by id returns the same records."""
        contents = await self.reader.by_queue()
        for records in contents.values():
            for record in records:
                assert await self.reader.by_id(decode(record).physical_offset) == record
        return Snapshot(contents, await self.reader.by_key(keys_of(contents)))

    async def wait_for_ops(self, sent: Sequence[SentMessage]) -> None:
        """Return when the op messages of all resolved transactions are stored, which producers do not wait for."""
        wanted = sum(one.kind in _RESOLVED for one in sent)
        async with asyncio.timeout(60):
            while await self._resolved_count() < wanted:
                await asyncio.sleep(0.2)

    async def _resolved_count(self) -> int:
        contents = await self.reader.by_queue()
        bodies = [decode(record).body for record in contents.get((OP_TOPIC, 0), [])]
        return sum(len([word for word in body.split(b",") if word]) for body in bodies)


@dataclass(frozen=True, slots=True)
class JavaStore:
    """Runs Java of one version on a directory, always on the same port, so that message ids stay valid."""

    version: str
    namesrv: str
    root: Path
    host: str = "127.0.0.1"
    # System properties of the JVMs.
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=broker_port)

    @property
    def has_timers(self) -> bool:
        return self.version.startswith("5")

    @contextlib.asynccontextmanager
    async def running_broker(self, **properties: str) -> AsyncIterator[RunningBroker]:
        """Start a broker on the directory; shuts it down cleanly at the end, unless it was killed."""
        wanted = broker_properties(self.root, **properties)
        async with Client() as client:
            with broker(
                self.version, self.namesrv, port=self.port, properties=wanted, settings=self.settings
            ) as process:
                await until_registered(
                    client, self.namesrv, "TBW102" if "autoCreateTopicEnable" not in properties else TOPIC
                )
                yield RunningBroker(process, BrokerReader(client, f"[{self.host}]:{self.port}", self.root))
                if process.is_running:
                    process.terminate()

    def send(self, prefix: str, count: int) -> list[SentMessage]:
        """Send some messages of every kind, and `count` plain ones."""
        completed = run_java(self.version, *self._kinds(prefix, count), settings=self.settings)
        assert completed.stdout.endswith("sent\n"), completed
        return parse(completed.stdout.splitlines())

    @contextlib.contextmanager
    def background_sender(self, prefix: str, count: int) -> Iterator[Process]:
        """Send in the background."""
        with temporary_home() as home:
            command = java_command(self.version, home, *self._kinds(prefix, count), settings=self.settings)
            with running(command, home) as process:
                yield process

    def _kinds(self, prefix: str, count: int) -> tuple[str, ...]:
        return "Kinds.java", self.namesrv, TOPIC, prefix, str(count), str(self.has_timers).lower()

    def collect(self, group: str, count: int) -> dict[str, str]:
        """Consume the topic until `count` messages or one minute; return unique key → digest."""
        arguments = (self.namesrv, TOPIC, group, str(count), "60")
        completed = run_java(self.version, "Collect.java", *arguments, settings=self.settings)
        lines = completed.stdout.splitlines()
        assert lines[-1:], completed
        assert lines[-1].startswith("collected "), completed
        return {unique_key: digest for unique_key, _, _, digest in (line.split("\t") for line in lines[:-1])}

    @contextlib.contextmanager
    def committing_producer(self) -> Iterator[Process]:
        """Start a producer that commits every checked transaction, and prints `asked` with the unique key."""
        with temporary_home() as home:
            command = java_command(self.version, home, "Settle.java", self.namesrv, TOPIC, TRANSACTION_GROUP)
            with running(command, home) as process:
                process.wait_for("ready")
                yield process

    def query(self, queries: Sequence[str]) -> list[str]:
        """Query like mqadmin, by `id ...` or `key ...`; return a line of offset ids and digests for each query."""
        with temporary_home() as home:
            lines = home / "queries.txt"
            lines.write_text("".join(f"{query}\n" for query in queries))
            completed = run_java(self.version, "Query.java", self.namesrv, TOPIC, str(lines), timeout_seconds=240)
        assert completed.code == 0, completed
        return completed.stdout.splitlines()


async def until_registered(client: Client, namesrv: str, topic: str = "TBW102") -> None:
    """Return when a broker that has the topic is registered."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.call(namesrv, GetRouteInfoByTopic(topic=topic))
                return
            except TopicNotFound:
                await asyncio.sleep(0.05)
