"""Masters and slaves on real files and sockets, and raw ends of the HA stream as Java's brokers use it."""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from kerolox.message import sysflag
from kerolox.replication.client import ReplicationClient
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.server import ReplicationServer
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.service import Supervisor
from kerolox.store.config import FlushDiskType, StoreConfig
from kerolox.store.store import Store, StoreHooks
from tests.store.stores import batch, draft

FILE_SIZE = 16 * 1024
LOCALHOST = "127.0.0.1"
SECONDS = 20.0


def store_config(root: Path, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH, **settings: Any) -> StoreConfig:
    return StoreConfig(
        **{
            "store_path_root_dir": root,
            "mapped_file_size_commit_log": FILE_SIZE,
            "mapped_file_size_consume_queue": 20 * 100,
            "max_hash_slot_num": 100,
            "max_index_num": 400,
            "flush_disk_type": flush,
            **settings,
        }
    )


class Master:
    def __init__(self, store: Store, server: ReplicationServer) -> None:
        self.store = store
        self.server = server

    @property
    def address(self) -> str:
        return self.server.address

    def connect(self) -> socket.socket:
        host, port = self.address.split(":")
        return socket.create_connection((host, int(port)), timeout=SECONDS)


class Slave:
    def __init__(self, store: Store, client: ReplicationClient) -> None:
        self.store = store
        self.client = client


@contextlib.asynccontextmanager
async def running_master(
    config: StoreConfig,
    replication: ReplicationConfig | None = None,
    *,
    hooks: StoreHooks | None = None,
    clock: Clock | None = None,
    port: int = 0,
) -> AsyncIterator[Master]:
    clock, replication = clock or SystemClock(), replication or ReplicationConfig()
    store = Store(config, hooks=hooks)
    server = ReplicationServer(store, replication, clock, host=LOCALHOST, port=port)
    async with Supervisor(store, server):
        yield Master(store, server)


@contextlib.asynccontextmanager
async def running_slave(
    config: StoreConfig,
    master: str | None,
    replication: ReplicationConfig | None = None,
    *,
    clock: Clock | None = None,
    min_offset: int = 0,
) -> AsyncIterator[Slave]:
    store = Store(config, hooks=StoreHooks(is_copy=True))
    client = ReplicationClient(store, replication or ReplicationConfig(), clock or SystemClock())
    client.set_master(master, min_offset=min_offset)
    async with Supervisor(store, client):
        yield Slave(store, client)


async def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def fill(store: Store, count: int = 200, seed: int = 1) -> None:
    """Send messages of many kinds and sizes, single and in batches, to several topics and queues."""
    chance = random.Random(seed)
    for number in range(count):
        body = chance.randbytes(chance.choice([0, 10, 300, 2000]))
        topic, queue_id = chance.choice(["orders", "refunds", "%RETRY%group"]), chance.randrange(3)
        kind = chance.choice([0, 0, 0, sysflag.PREPARED, sysflag.COMMIT, sysflag.ROLLBACK])
        if number % 7:
            await store.put(draft(body, topic, queue_id, kind, KEYS=f"key{number}", TAGS="red", UNIQ_KEY=f"id{number}"))
        else:
            await store.put(batch([body, b"b", b"c"], topic, queue_id))


def log_files(store: Store) -> dict[str, bytes]:
    """Return the content of the files of the log up to its end, by name."""
    found = {}
    for path in sorted(store.config.commit_log_directory.iterdir()):
        left = store.log.end_offset - int(path.name)
        if left > 0:
            found[path.name] = path.read_bytes()[:left]
    return found


def derived(store: Store) -> tuple[object, ...]:
    """Return everything that was dispatched: queue entries, messages by key, next queue offsets."""
    queues = {
        key: [queue.entry(offset) for offset in range(queue.min_offset, queue.max_offset)]
        for key, queue in sorted(store.queues.items())
        if queue.max_offset
    }
    topics = {topic for topic, _ in queues}
    found = {(topic, n): store.reader.find(topic, b"key%d" % n) for topic in topics for n in range(0, 200, 3)}
    return queues, found, {key: store.append_offset(*key) for key in queues}


def assert_equal(master: Store, slave: Store) -> None:
    assert log_files(slave) == log_files(master)
    assert derived(slave) == derived(master)


# Java's ends of the stream


class RawSlave:
    """Reports and reads like a slave of RocketMQ's, but only when told to."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = b""
        connection.setblocking(False)

    async def report(self, offset: int) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, struct.pack(">q", offset))

    async def frame(self) -> tuple[int, bytes]:
        """Return offset and body of the next frame; ConnectionError if the master has closed the connection."""
        head = await self._read(12)
        offset, size = struct.unpack(">qi", head)
        return offset, await self._read(size)

    async def copy(self, end_offset: int) -> tuple[int, bytes]:
        """Return where the master began, and all bytes up to `end_offset`; each frame is acknowledged."""
        start, data = -1, bytearray()
        while start < 0 or start + len(data) < end_offset:
            offset, body = await self.frame()
            if start < 0:
                start = offset
            assert offset == start + len(data)
            data += body
            await self.report(start + len(data))
        return start, bytes(data)

    async def is_closed(self) -> bool:
        try:
            while True:
                await self.frame()
        except ConnectionError:
            return True

    async def _read(self, size: int) -> bytes:
        async with asyncio.timeout(SECONDS):
            while len(self._buffer) < size:
                data = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
                if not data:
                    raise ConnectionResetError
                self._buffer += data
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def close(self) -> None:
        self._socket.close()


@contextlib.asynccontextmanager
async def raw_slave(master: Master) -> AsyncIterator[RawSlave]:
    slave = RawSlave(master.connect())
    try:
        yield slave
    finally:
        slave.close()


class RawMaster:
    """Listens like a master of RocketMQ's: takes the last report of a read, sends frames of 32 KiB."""

    def __init__(self) -> None:
        # The bytes that each connection has sent.
        self.received: list[bytearray] = []
        self.connections: list[asyncio.StreamWriter] = []
        self.address = ""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = bytearray()
        self.received.append(received)
        self.connections.append(writer)
        while data := await reader.read(1024):
            received += data
        writer.close()

    def reports(self, number: int = -1) -> list[int]:
        data = bytes(self.received[number])
        return [report for (report,) in struct.iter_unpack(">q", data[: len(data) // 8 * 8])]

    def send(self, offset: int, data: bytes = b"") -> None:
        if not data:
            self.connections[-1].write(struct.pack(">qi", offset, 0))
        for at in range(0, len(data), 32768):
            body = data[at : at + 32768]
            self.connections[-1].write(struct.pack(">qi", offset + at, len(body)) + body)

    async def first_report(self) -> int:
        """Wait for a new connection's first report, as Java takes it, and return it."""
        await until(lambda: self.received and len(self.received[-1]) >= 16)
        return self.reports()[1]


@contextlib.asynccontextmanager
async def raw_master() -> AsyncIterator[RawMaster]:
    master = RawMaster()
    server = await asyncio.start_server(master.accept, LOCALHOST, 0)
    host, port = server.sockets[0].getsockname()
    master.address = f"{host}:{port}"
    try:
        yield master
    finally:
        server.close()
        for connection in master.connections:
            connection.close()
