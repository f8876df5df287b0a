"""The slave's end of replication: follows the log of its master (HAClient)."""

import asyncio
import contextlib
import logging
import secrets

import msgspec

from kerolox.errors import KeroloxError, reason
from kerolox.remoting.address import parse_address
from kerolox.replication.classic_stream import (
    WHOLE_LOG,
    FrameParser,
    StreamError,
    encode_identity,
    encode_report,
)
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.rates import ByteRate
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.runtime.waiting import wait_with_timeout
from kerolox.store.config import FlushDiskType
from kerolox.store.store import Store

log = logging.getLogger(__name__)

# The pause before the next attempt doubles from the first to the second of these.
_RETRY_SECONDS, _RETRY_SECONDS_MAX = 0.5, 5.0
_CONNECT_SECONDS = 5.0
_READ_SIZE = 256 * 1024
_TICK_SECONDS = 1.0
# How long a report waits for the disk under SYNC_FLUSH.
_SYNC_SECONDS = 60.0


class ClientStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`haClientRuntimeInfo` in HARuntimeInfo."""

    master_addr: str | None
    transferred_byte_in_second: int
    max_offset: int
    # Milliseconds since 1970; 0 if there was none.
    last_read_timestamp: int
    last_write_timestamp: int
    activated: bool


class ReplicationClient(Service):
    """Copies the log of the master that `set_master` names, from the end of its own log on; an empty one as a whole.

    It reports what it has written, under SYNC_FLUSH what is durable; RocketMQ's slaves report what is written.
    """

    def __init__(self, store: Store, config: ReplicationConfig, clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._is_sync = store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._master: str | None = None
        self._min_offset = 0
        self._master_changed = asyncio.Event()
        # Distinguishes this slave from others on the same host.
        self._identity = secrets.randbits(63)
        # Whether an empty slave asks for the last file only, because the master does not hold the beginning of its log.
        self._wants_last_file = False
        self._writer: asyncio.StreamWriter | None = None
        self._reported = 0
        self._appended = asyncio.Event()
        self._rate = ByteRate(clock)
        self._last_read = self._last_write = 0.0
        self._last_read_millis = self._last_write_millis = 0

    def set_master(self, address: str | None, *, min_offset: int = 0) -> None:
        """Follow the master that listens for slaves at `address`; None to follow nobody.

        `min_offset` is where the log of a master of RocketMQ's begins, if known, for an empty slave to copy all of it;
        masters of our own need not be asked. ConfigurationError if the address is malformed.
        """
        if address is not None:
            parse_address(address)
        self._min_offset = min_offset
        if address != self._master:
            self._master = address
            self._wants_last_file = False
            self._master_changed.set()

    def status(self) -> ClientStatus:
        return ClientStatus(
            self._master,
            self._rate.in_last_second,
            self._store.log.end_offset,
            self._last_read_millis,
            self._last_write_millis,
            self._writer is not None,
        )

    async def run(self) -> None:
        pause = _RETRY_SECONDS
        while True:
            self._master_changed.clear()
            if self._master is None:
                await self._master_changed.wait()
                continue
            held = self._store.log.end_offset
            await self._follow_until_changed(self._master)
            pause = _RETRY_SECONDS if self._store.log.end_offset > held else min(2 * pause, _RETRY_SECONDS_MAX)
            if self._master_changed.is_set():
                pause = _RETRY_SECONDS
            else:
                await wait_with_timeout(self._master_changed, pause, self._clock)

    async def _follow_until_changed(self, address: str) -> None:
        changed = asyncio.create_task(self._master_changed.wait())
        following = asyncio.create_task(self._follow(address), name=f"replication from {address}")
        try:
            await asyncio.wait([changed, following], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            following.cancel()
            await asyncio.gather(changed, following, return_exceptions=True)
        if not following.cancelled() and (error := following.exception()) is not None:
            is_expected = isinstance(error, OSError | KeroloxError)
            text = reason(error) if isinstance(error, OSError) else error
            log.warning(
                "replication from %s has stopped at %d: %s",
                address,
                self._store.log.end_offset,
                text,
                exc_info=None if is_expected else error,
            )

    async def _follow(self, address: str) -> None:
        """Copy the log until the connection ends; raises the reason."""
        reader, writer = await self._connect(address)
        try:
            self._writer = writer
            await self._store.begin_copy()
            self._last_read = self._clock.monotonic()
            asked = self._first_report()
            log.info("replicating from %s, from %s on", address, "the beginning" if asked == WHOLE_LOG else asked)
            self._write(encode_identity(self._identity) + encode_report(asked))
            self._reported = asked
            async with contextlib.AsyncExitStack() as stack:
                for background in (self._watch(writer), self._report_durable()):
                    task = asyncio.create_task(background)
                    stack.push_async_callback(_cancel, task)
                await self._receive(reader, asked)
        finally:
            self._writer = None
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _connect(self, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = parse_address(address)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await asyncio.open_connection(host, port, limit=_READ_SIZE)
        except TimeoutError as error:
            raise StreamError(f"no connection within {_CONNECT_SECONDS:g} s") from error

    def _first_report(self) -> int:
        if not self._store.is_empty:
            return self._store.held_offset
        if self._wants_last_file:
            return 0
        return max(WHOLE_LOG, self._min_offset)

    async def _receive(self, reader: asyncio.StreamReader, asked: int) -> None:
        frames = FrameParser()
        has_received = False
        while data := await reader.read(_READ_SIZE):
            self._last_read, self._last_read_millis = self._clock.monotonic(), self._clock.millis()
            self._rate.add(len(data))
            has_received = True
            for offset, piece in _joined(list(frames.feed(data))):
                await self._take(offset, piece, asked)
            if self._is_sync:
                self._appended.set()
            else:
                self._report()
        if not has_received:
            raise StreamError(
                f"the master closed the connection without sending anything; its log may not hold {asked}, see there"
            )
        raise StreamError("the master closed the connection")

    async def _take(self, offset: int, piece: bytes, asked: int) -> None:
        store = self._store
        if store.is_empty and offset == asked == WHOLE_LOG:
            # A master of RocketMQ's.
            if not piece:
                self._wants_last_file = True
                raise StreamError("the master has no bytes at the beginning of its log, asking for its last file")
            offset, piece = 0, b"\0" + piece
        if piece:
            await store.append_copy(offset, piece)
        elif offset != store.copy_offset and not store.is_empty:
            raise StreamError(f"the master continues at {offset}, this copy ends at {store.copy_offset}")

    def _report(self) -> None:
        """Tell the master what is held, if that has changed."""
        held = self._store.held_offset
        if held != self._reported and not self._store.is_empty:
            self._reported = held
            self._write(encode_report(held))

    async def _report_durable(self) -> None:
        """Under SYNC_FLUSH, report what has become durable."""
        while True:
            await self._appended.wait()
            self._appended.clear()
            end_offset = self._store.log.end_offset
            if not await self._store.flusher.wait(end_offset, timeout_seconds=_SYNC_SECONDS):
                log.warning("the log was not synced within %g s", _SYNC_SECONDS)
            self._report()

    async def _watch(self, writer: asyncio.StreamWriter) -> None:
        """Repeat the report from time to time, and end the connection if the master is silent."""
        config = self._config
        while True:
            await self._clock.sleep(min(_TICK_SECONDS, config.ha_send_heartbeat_interval / 4000))
            now = self._clock.monotonic()
            if now - self._last_read > config.ha_housekeeping_interval / 1000:
                log.warning("nothing received from %s for %g s", self._master, now - self._last_read)
                writer.transport.abort()
                return
            if now - self._last_write >= config.ha_send_heartbeat_interval / 1000:
                # An empty slave has asked for bytes that it does not hold.
                self._write(encode_report(0 if self._store.is_empty else self._reported))

    def _write(self, data: bytes) -> None:
        if self._writer is not None:
            self._last_write, self._last_write_millis = self._clock.monotonic(), self._clock.millis()
            self._writer.write(data)


def _joined(pieces: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Join pieces of the log that follow each other, so that they are written together."""
    joined: list[tuple[int, list[bytes], int]] = []
    for offset, piece in pieces:
        if joined and piece and joined[-1][2] == offset and joined[-1][1][0]:
            start, parts, end = joined[-1]
            parts.append(piece)
            joined[-1] = start, parts, end + len(piece)
        else:
            joined.append((offset, [piece], offset + len(piece)))
    return [(offset, parts[0] if len(parts) == 1 else b"".join(parts)) for offset, parts, _ in joined]


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
