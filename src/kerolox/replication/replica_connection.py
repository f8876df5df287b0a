"""What both HA streams share on the master's side of a connection (HAConnection)."""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, cast

import msgspec

from kerolox.errors import KeroloxError
from kerolox.remoting.address import format_address
from kerolox.remoting.server.connection_limit import LogLimit
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.rates import ByteRate
from kerolox.runtime.clock import Clock
from kerolox.store.store import Store

log = logging.getLogger(__name__)

# Bytes that wait for a slow slave, besides the last frame; the log is read no faster than the slave takes it.
_UNSENT_SIZE_MAX = 512 * 1024


class SlaveStatus(msgspec.Struct, frozen=True, rename="camel"):
    """An element of `haConnectionInfo` in HARuntimeInfo."""

    addr: str
    slave_ack_offset: int
    diff: int
    in_sync: bool
    transferred_byte_in_second: int
    transfer_from_where: int


class ReplicaConnection(asyncio.Protocol):
    """Sends the log as it grows, from where the subclass begins, in frames that the subclass encodes.

    `on_change` is called when the slave has sent something, and when the connection has ended.
    """

    def __init__(
        self,
        store: Store,
        config: ReplicationConfig,
        clock: Clock,
        on_change: Callable[[Any], None],
        log_limit: LogLimit,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._on_change = on_change
        self._log_limit = log_limit
        self._transport: asyncio.Transport | None = None
        self._sending: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._last_read = self._last_write = clock.monotonic()
        self._rate = ByteRate(clock)
        self.address = ""
        # What identifies the slave: its own number, or its host.
        self.slave = ""
        self.is_open = False
        # The log is held by the slave up to here; None before its first report.
        self.ack_offset: int | None = None
        # The log has been sent up to here.
        self.transfer_offset = 0

    # What the streams differ in

    @abstractmethod
    def _receive(self, data: bytes) -> None:
        """Take what the slave has sent; KeroloxError to close the connection."""

    @abstractmethod
    def _chunk_size_max(self, offset: int) -> int:
        """Return how many bytes of the log from `offset` on a frame may have."""

    @abstractmethod
    def _encode(self, offset: int, data: bytes) -> bytes:
        """Return a frame; a heartbeat if there are no data."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_UNSENT_SIZE_MAX)
        peer = transport.get_extra_info("peername")
        self.address = format_address(peer)
        self.slave = peer[0] if isinstance(peer, tuple) else self.address
        self.is_open = True
        log.debug("slave %s connected", self.address)
        self._on_change(self)

    def data_received(self, data: bytes) -> None:
        if not self.is_open:
            return
        self._last_read = self._clock.monotonic()
        try:
            self._receive(data)
        except KeroloxError as error:
            log.log(self._log_limit.level(), "closing the connection of slave %s: %s", self.address, error)
            self.close()
        self._on_change(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.ack_offset is not None:
            log.info("slave %s disconnected%s", self.address, f": {exc}" if exc else "")
        self.close()
        self._on_change(self)

    def close(self) -> None:
        self.is_open = False
        self.ack_offset = None
        if self._sending is not None:
            self._sending.cancel()
        if self._transport is not None:
            # Not `close`, which would first send what a slave that has stopped reading never takes.
            self._transport.abort()

    # Sending

    def _begin_sending(self, start: int, *, held: int) -> None:
        """Send the log from `start` on, to a slave that holds it up to `held`."""
        self.ack_offset, self.transfer_offset = held, start
        log.info("slave %s holds the log up to %d, sending it from %d", self.address, held, start)
        self._sending = asyncio.create_task(self._send_log(start), name=f"replication to {self.address}")
        self._sending.add_done_callback(self._sending_ended)

    async def _send_log(self, offset: int) -> None:
        config, store = self._config, self._store
        rate_max = config.max_ha_transfer_byte_in_second if config.ha_flow_control_enable else None
        while True:
            if offset == store.log.end_offset:
                await store.growth.wait(offset)
            allowed = self._chunk_size_max(offset)
            if rate_max is not None:
                allowed = min(allowed, rate_max - self._rate.in_this_second)
            if allowed <= 0:
                await self._clock.sleep(self._rate.second_left)
                continue
            data = await store.read_log(offset, allowed)
            self._write(self._encode(offset, data))
            self._rate.add(len(data))
            offset += len(data)
            self.transfer_offset = offset
            # Also lets other tasks run: a slave that is far behind never waits for the log to grow.
            await asyncio.sleep(0)
            await self._writable.wait()

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._last_write = self._clock.monotonic()
        self._transport.write(data)

    def _sending_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, KeroloxError):
            log.warning("closing the connection of slave %s: %s", self.address, error)
        else:
            log.error("sending the log to slave %s failed", self.address, exc_info=error)
        self.close()

    # Housekeeping

    def tick(self) -> None:
        """Send a heartbeat if nothing was sent for long, and close if nothing was received for long."""
        now = self._clock.monotonic()
        if now - self._last_read > self._config.ha_housekeeping_interval / 1000:
            silent = now - self._last_read
            log.log(self._log_limit.level(), "closing the connection of %s: no report for %g s", self.address, silent)
            self.close()
            self._on_change(self)
        elif self.ack_offset is not None and self._writable.is_set() and self._is_heartbeat_due(now):
            self._write(self._encode(self.transfer_offset, b""))

    def _is_heartbeat_due(self, now: float) -> bool:
        return now - self._last_write >= self._config.ha_send_heartbeat_interval / 1000

    def status(self) -> SlaveStatus:
        held = self.ack_offset or 0
        diff = self._store.log.end_offset - held
        is_in_sync = self.ack_offset is not None and diff < self._config.ha_max_gap_not_in_sync
        transfer_from = -1 if self.ack_offset is None else self.transfer_offset
        return SlaveStatus(self.address, held, diff, is_in_sync, self._rate.in_last_second, transfer_from)
