"""NameServer and broker processes under load, and a check that every acknowledged message can be read."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kerolox.client import Message, MessageQueue, Producer, PullConsumer, SendResult
from kerolox.errors import KeroloxError
from kerolox.remoting.client import Client
from kerolox.wire.bodies.routes import TopicRouteData
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic
from tests.apache.processes import Process, free_port
from tests.apache.servers import broker_port
from tests.compat.brokers import kerolox_broker
from tests.compat.name_servers import kerolox_name_server

TOPIC = "orders"
TASKS = 8
BROKERS = ("broker-a", "broker-b")
NAME_SERVERS = ("first", "second")
_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 0.01


class Servers:
    """Two NameServers and two brokers, which can be stopped and restarted with the same address and store."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._ports = {name: free_port() for name in NAME_SERVERS} | {name: broker_port() for name in BROKERS}
        self.namesrv_addr = ";".join(self.address(name) for name in NAME_SERVERS)
        self._running: dict[str, Process] = {}

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def __getitem__(self, name: str) -> Process:
        return self._running[name]

    async def start(self, name: str) -> None:
        """Start a server and return when it is ready."""
        self._running[name] = await asyncio.to_thread(self._stack.enter_context, self._process(name))

    def _process(self, name: str) -> AbstractContextManager[Process]:
        port = self._ports[name]
        if name in NAME_SERVERS:
            return kerolox_name_server({"listenPort": str(port)})
        return kerolox_broker(self.namesrv_addr, name=name, port=port, store=self._directory / name)

    async def restart(self, name: str) -> None:
        await asyncio.to_thread(self[name].terminate)
        await self.start(name)

    async def until_known(self, name_server: str, *brokers: str) -> None:
        """Return when the NameServer has these brokers in the route of the topic."""
        async with Client() as client, asyncio.timeout(_WAIT_SECONDS):
            while not {*brokers} <= await self._known(client, self.address(name_server)):
                await asyncio.sleep(_LOOK_SECONDS)

    async def _known(self, client: Client, address: str) -> set[str]:
        try:
            reply = await client.call(address, GetRouteInfoByTopic(topic=TOPIC))
        except KeroloxError:
            return set()
        return {broker.broker_name for broker in TopicRouteData.decode(reply.body).broker_datas}


@asynccontextmanager
async def servers(directory: Path) -> AsyncIterator[Servers]:
    with ExitStack() as stack:
        started = Servers(directory, stack)
        await asyncio.gather(*(started.start(name) for name in NAME_SERVERS))
        await asyncio.gather(*(started.start(name) for name in BROKERS))
        yield started


class Load:
    """Tasks that send one message after the other until the end of `async with`; no send may fail."""

    def __init__(self, producer: Producer, *, pause_seconds: float = 0.0) -> None:
        self._producer = producer
        # Pause between two messages of a task.
        self._pause_seconds = pause_seconds
        self._is_ending = False
        self._loop = asyncio.get_running_loop()
        self._count = 0
        self.sent: dict[bytes, SendResult] = {}
        self._acknowledged: Counter[str] = Counter()
        self._last = self._loop.time()
        self.longest_gap_seconds = 0.0

    async def __aenter__(self) -> "Load":
        self._tasks = [asyncio.create_task(self._send()) for _ in range(TASKS)]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._is_ending = True
        # A failed send raises here.
        await asyncio.gather(*self._tasks)

    async def _send(self) -> None:
        while not self._is_ending:
            body = b"%d" % self._count
            self._count += 1
            result = self.sent[body] = await self._producer.send(Message(TOPIC, body))
            self._acknowledged[result.queue.broker_name] += 1
            now = self._loop.time()
            self.longest_gap_seconds = max(self.longest_gap_seconds, now - self._last)
            self._last = now
            if self._pause_seconds:
                await asyncio.sleep(self._pause_seconds)

    async def until_sent_to(self, *brokers: str, count: int = 200) -> None:
        """Return when each of these brokers has acknowledged `count` more messages."""
        targets = {name: self._acknowledged[name] + count for name in brokers}
        async with asyncio.timeout(_WAIT_SECONDS):
            while any(self._acknowledged[name] < target for name, target in targets.items()):
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(_LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a load: the number of acknowledged messages, and of duplicates of them."""

    acknowledged: int
    duplicates: int
    longest_gap_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.acknowledged:,} acknowledged, none lost, {self.duplicates} duplicates, "
            f"longest gap {self.longest_gap_seconds:.2f} s"
        )


async def outcome(load: Load, running: Servers) -> Outcome:
    """Read all messages; each acknowledged one must be at the offset that its producer got."""
    found = await _read(running)
    lost = [body for body, result in load.sent.items() if (result.queue, result.queue_offset) not in found[body]]
    assert not lost, f"{len(lost)} of {len(load.sent)} acknowledged messages are lost, {lost[0]!r} first"
    duplicates = sum(len(positions) - 1 for positions in found.values())
    return Outcome(len(load.sent), duplicates, load.longest_gap_seconds)


async def _read(running: Servers) -> dict[bytes, set[tuple[MessageQueue, int]]]:
    """Return body → the queues and offsets of the messages with that body."""
    positions: dict[bytes, set[tuple[MessageQueue, int]]] = defaultdict(set)
    async with PullConsumer("auditors", namesrv_addr=running.namesrv_addr, auto_commit=False) as consumer:
        queues = await consumer.queues(TOPIC)
        assert {queue.broker_name for queue in queues} == set(BROKERS)
        await consumer.assign(queues)
        left = 0
        for queue in queues:
            await consumer.seek_to_begin(queue)
            left += await consumer.max_offset(queue) - await consumer.min_offset(queue)
        while left:
            messages = await consumer.poll(1000)
            assert messages, f"{left} messages are missing"
            left -= len(messages)
            for message in messages:
                positions[message.body].add((message.queue, message.queue_offset))
    return positions
