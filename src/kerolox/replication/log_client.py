"""What both HA streams share on the slave's side (HAClient)."""

import asyncio
import contextlib
import logging
from abc import abstractmethod

import msgspec

from kerolox.errors import KeroloxError, reason
from kerolox.remoting.address import parse_address
from kerolox.replication.classic_stream import StreamError
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


class LogClient(Service):
    """Connects to a master again and again, and copies its log as the subclass understands the stream.

    It reports what it has written, under SYNC_FLUSH what is durable; RocketMQ's slaves report what is written.
    """

    def __init__(self, store: Store, config: ReplicationConfig, clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._is_sync = store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._master: str | None = None
        self._master_changed = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._reported = 0
        self._appended = asyncio.Event()
        self._rate = ByteRate(clock)
        self._last_read = self._last_write = 0.0
        self._last_read_millis = self._last_write_millis = 0

    # What the streams differ in

    @abstractmethod
    def _greet(self) -> None:
        """Write what a connection begins with."""

    @abstractmethod
    async def _receive(self, data: bytes) -> None:
        """Take what the master has sent; an error ends the connection."""

    @abstractmethod
    def _encode_report(self, held: int) -> bytes: ...

    @abstractmethod
    def _heartbeat(self) -> bytes:
        """Return what is sent if nothing else was for long."""

    def _ends_for_good(self, error: BaseException | None) -> bool:
        """Whether the master is not to be followed any more after this end of a connection."""
        return False

    # Following

    def _set_address(self, address: str | None) -> bool:
        """Follow the master at `address`, None to follow nobody; False if that is so already."""
        if address is not None:
            parse_address(address)
        if address == self._master:
            return False
        self._master = address
        self._master_changed.set()
        return True

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
            if self._ends_for_good(await self._follow_until_changed(self._master)):
                return
            pause = _RETRY_SECONDS if self._store.log.end_offset > held else min(2 * pause, _RETRY_SECONDS_MAX)
            if self._master_changed.is_set():
                pause = _RETRY_SECONDS
            else:
                await wait_with_timeout(self._master_changed, pause, self._clock)

    async def _follow_until_changed(self, address: str) -> BaseException | None:
        changed = asyncio.create_task(self._master_changed.wait())
        following = asyncio.create_task(self._follow(address), name=f"replication from {address}")
        try:
            await asyncio.wait([changed, following], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            following.cancel()
            await asyncio.gather(changed, following, return_exceptions=True)
        error = None if following.cancelled() else following.exception()
        if error is not None:
            is_expected = isinstance(error, OSError | KeroloxError)
            text = reason(error) if isinstance(error, OSError) else error
            log.warning(
                "replication from %s has stopped at %d: %s",
                address,
                self._store.log.end_offset,
                text,
                exc_info=None if is_expected else error,
            )
        return error

    async def _follow(self, address: str) -> None:
        """Copy the log until the connection ends; raises the reason."""
        reader, writer = await self._connect(address)
        try:
            self._writer = writer
            await self._store.begin_copy()
            self._last_read = self._clock.monotonic()
            self._greet()
            async with contextlib.AsyncExitStack() as stack:
                for background in (self._watch(writer), self._report_durable()):
                    task = asyncio.create_task(background)
                    stack.push_async_callback(_cancel, task)
                await self._copy(reader)
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

    async def _copy(self, reader: asyncio.StreamReader) -> None:
        has_received = False
        while data := await reader.read(_READ_SIZE):
            has_received = True
            self._last_read, self._last_read_millis = self._clock.monotonic(), self._clock.millis()
            self._rate.add(len(data))
            await self._receive(data)
            if self._is_sync:
                self._appended.set()
            else:
                self._report()
        if not has_received:
            raise StreamError(
                "the master closed the connection without sending anything; its log may not hold "
                f"{self._reported}, see there"
            )
        raise StreamError("the master closed the connection")

    def _report(self) -> None:
        """Tell the master what is held, if that has changed."""
        held = self._store.held_offset
        if held != self._reported and not self._store.is_empty:
            self._reported = held
            self._write(self._encode_report(held))

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
                self._write(self._heartbeat())

    def _write(self, data: bytes) -> None:
        if self._writer is not None:
            self._last_write, self._last_write_millis = self._clock.monotonic(), self._clock.millis()
            self._writer.write(data)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
