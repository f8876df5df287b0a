"""Java's side of a store directory: a broker over it, and the programs that send, consume and ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kerolox.errors import TopicNotFound
from kerolox.message.record import decode
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
    """All that a broker serves at one moment."""

    contents: Contents
    places: Places


@dataclass(frozen=True, slots=True)
class Serving:
    """A broker that runs, and who asks it."""

    process: Process
    served: Served

    async def snapshot(self) -> Snapshot:
        """Reads everything by queue, then each record by its id, which must give the same, and by its keys."""
        contents = await self.served.by_queue()
        for records in contents.values():
            for record in records:
                assert await self.served.by_id(decode(record).physical_offset) == record
        return Snapshot(contents, await self.served.by_key(keys_of(contents)))

    async def decided(self, sent: Sequence[Sent]) -> None:
        """Returns when all ends of transactions are stored: producers do not wait for it, and 5.x gathers them."""
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
    """A directory, and how Java of one version is run over it; always with the same port, so that ids stay true."""

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
        """A broker over the directory, which ends as an operator would end it, unless it was killed."""
        wanted = broker_properties(self.root, **properties)
        async with Client() as client:
            with broker(self.version, self.namesrv, port=self.port, properties=wanted, settings=self.settings) as it:
                await registered(client, self.namesrv, "TBW102" if "autoCreateTopicEnable" not in properties else TOPIC)
                yield Serving(it, Served(client, f"[{self.host}]:{self.port}", self.root))
                if it.is_running:
                    it.terminate()

    def send(self, prefix: str, count: int) -> list[Sent]:
        """Sends some of every kind, and `count` plain ones."""
        completed = run_java(self.version, *self._kinds(prefix, count), settings=self.settings)
        assert completed.stdout.endswith("sent\n"), completed
        return parse(completed.stdout.splitlines())

    @contextlib.contextmanager
    def sending(self, prefix: str, count: int) -> Iterator[Process]:
        """The same in the background."""
        with temporary_home() as home:
            command = java_command(self.version, home, *self._kinds(prefix, count), settings=self.settings)
            with running(command, home) as process:
                yield process

    def _kinds(self, prefix: str, count: int) -> tuple[str, ...]:
        return "Kinds.java", self.namesrv, TOPIC, prefix, str(count), str(self.has_timers).lower()

    def collect(self, group: str, count: int) -> dict[str, str]:
        """Consumes the topic as a group until there are `count`, or a minute; returns their digests by unique key."""
        arguments = (self.namesrv, TOPIC, group, str(count), "60")
        completed = run_java(self.version, "Collect.java", *arguments, settings=self.settings)
        lines = completed.stdout.splitlines()
        assert lines[-1:], completed
        assert lines[-1].startswith("collected "), completed
        return {unique_key: digest for unique_key, _, _, digest in (line.split("\t") for line in lines[:-1])}

    @contextlib.contextmanager
    def settling(self) -> Iterator[Process]:
        """A producer that commits every transaction it is asked about, and prints `asked` with the unique key."""
        with temporary_home() as home:
            command = java_command(self.version, home, "Settle.java", self.namesrv, TOPIC, TRANSACTION_GROUP)
            with running(command, home) as process:
                process.wait_for("ready")
                yield process

    def query(self, questions: Sequence[str]) -> list[str]:
        """Asks as mqadmin does, `id ...` or `key ...`; returns a line of offset ids and digests for each."""
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
