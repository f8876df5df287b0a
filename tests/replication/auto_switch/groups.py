"""Groups of brokers in one process: stores, epochs and both ends of the auto-switch stream, without a controller."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from pathlib import Path

from kerolox.replication.auto_switch.client import AutoSwitchClient, GroupReplica
from kerolox.replication.auto_switch.connection import GroupMaster
from kerolox.replication.auto_switch.copies import SyncStateCopies, Term
from kerolox.replication.auto_switch.epoch_log import EpochLog
from kerolox.replication.auto_switch.frames import Chunk, FromMaster, Handshake, MasterFrames, MasterLog, Report
from kerolox.replication.auto_switch.server import AutoSwitchServer
from kerolox.replication.auto_switch.sync_state_set import SetLimits, SyncStateSet
from kerolox.replication.config import ReplicationConfig
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import RealDisk
from kerolox.runtime.service import Supervisor
from kerolox.store.config import FlushDiskType
from kerolox.store.store import Store, StoreHooks
from tests.replication.nodes import LOCALHOST, SECONDS, store_config

CONFIG = ReplicationConfig(slave_timeout=300)


class Node:
    """A broker of a group. The test plays the controller."""

    def __init__(
        self,
        root: Path,
        broker_id: int,
        *,
        flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH,
        members_min: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.clock = clock or SystemClock()
        self._limits = SetLimits(members_min)
        self.proposals: list[frozenset[int]] = []
        self.copies = SyncStateCopies(CONFIG, self.clock, self.proposals.append)
        self.store = Store(store_config(root, flush), hooks=StoreHooks(copies=self.copies, is_copy=True))
        self.epoch_log = EpochLog(self.store, RealDisk(), self.clock)
        master = GroupMaster(broker_id, self.store, self.epoch_log, self.copies)
        self.server = AutoSwitchServer(master, CONFIG, self.clock, host=LOCALHOST, port=0)
        self.must_restart = asyncio.Event()
        replica = GroupReplica(Handshake(broker_id), self.store, self.epoch_log, self.copies, self.must_restart.set)
        self.client = AutoSwitchClient(replica, CONFIG, self.clock)
        self.supervisor = Supervisor(self.store, self.epoch_log, self.server, self.client)

    async def lead(self, epoch: int) -> SyncStateSet:
        """Become the master of an epoch."""
        self.copies.end()
        self.server.disconnect()
        self.client.set_master(None)
        entry = await self.epoch_log.begin(epoch)
        await self.store.end_copy()
        start, now = self.store.log.end_offset, self.clock.monotonic()
        assert entry.start_offset <= start
        members = SyncStateSet(self.broker_id, self._limits, epoch_start=start, now=now)
        self.copies.begin(Term(members, lambda: self.store.held_offset))
        return members

    def follow(self, master: "Node | str") -> None:
        self.copies.end()
        self.server.disconnect()
        self.client.set_master(master if isinstance(master, str) else master.server.address)

    @property
    def end(self) -> int:
        return self.store.log.end_offset


@contextlib.asynccontextmanager
async def running(node: Node) -> AsyncIterator[Node]:
    async with node.supervisor:
        yield node


class RawReplica:
    """Speaks the stream as a replica, but only when told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = MasterFrames()
        self._unread: list[FromMaster] = []

    async def greet(self, broker_id: int = 2, **fields: bool) -> MasterLog:
        self._writer.write(Handshake(broker_id, **fields).encode())
        frame = await self.frame()
        assert isinstance(frame, MasterLog)
        return frame

    def report(self, end_offset: int) -> None:
        self._writer.write(Report(end_offset).encode())

    async def frame(self) -> FromMaster:
        """Return the next frame; ConnectionError if the master has closed the connection."""
        async with asyncio.timeout(SECONDS):
            while not self._unread:
                data = await self._reader.read(65536)
                if not data:
                    raise ConnectionResetError
                self._unread = self._frames.feed(data)
        return self._unread.pop(0)

    async def chunks(self, end_offset: int) -> list[Chunk]:
        found: list[Chunk] = []
        while not found or found[-1].physical_offset + len(found[-1].data) < end_offset:
            frame = await self.frame()
            assert isinstance(frame, Chunk)
            found.append(frame)
        return found

    async def is_closed(self) -> bool:
        try:
            while True:
                await self.frame()
        except ConnectionError:
            return True


@contextlib.asynccontextmanager
async def raw_replica(master: Node) -> AsyncIterator[RawReplica]:
    host, port = master.server.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield RawReplica(reader, writer)
    finally:
        writer.transport.abort()


class RawMaster:
    """Listens for one replica, answers its handshake and keeps what it reports."""

    def __init__(self, answer: MasterLog) -> None:
        self._answer = answer
        self.writer: asyncio.StreamWriter | None = None
        self.reports: list[int] = []
        self.connections = 0
        self.address = ""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await reader.readexactly(16)
            writer.write(self._answer.encode())
            self.writer = writer
            while True:
                kind, end_offset = struct.unpack(">iq", await reader.readexactly(12))
                assert kind == 2
                self.reports.append(end_offset)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def send(self, chunk: Chunk) -> None:
        assert self.writer is not None
        self.writer.write(chunk.encode())


@contextlib.asynccontextmanager
async def raw_master(answer: MasterLog) -> AsyncIterator[RawMaster]:
    master = RawMaster(answer)
    server = await asyncio.start_server(master.accept, LOCALHOST, 0)
    host, port = server.sockets[0].getsockname()
    master.address = f"{host}:{port}"
    try:
        yield master
    finally:
        server.close()
        if master.writer is not None:
            master.writer.close()
