"""A master's connection to one slave (HAConnection)."""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

import msgspec

from kerolox.remoting.address import format_address
from kerolox.remoting.server.connection_limit import LogLimit
from kerolox.replication.classic_stream import WHOLE_LOG, ReportParser, StreamError, encode_header
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.rates import ByteRate
from kerolox.runtime.clock import Clock
from kerolox.store.errors import StoreError
from kerolox.store.log.segments import INLINE_READ_SIZE_MAX
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


class SlaveConnection(asyncio.Protocol):
    """Sends the log from the offset that the slave reports first, as it grows.

    `on_change` is called when the slave has reported something, and when the connection has ended.
    """

    def __init__(
        self,
        store: Store,
        config: ReplicationConfig,
        clock: Clock,
        on_change: Callable[["SlaveConnection"], None],
        log_limit: LogLimit,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._on_change = on_change
        self._log_limit = log_limit
        self._reports = ReportParser()
        self._transport: asyncio.Transport | None = None
        self._sending: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._last_read = self._last_write = clock.monotonic()
        self._rate = ByteRate(clock)
        self.address = ""
        # What identifies the slave: its own number, or its host.
        self.slave = ""
        self.is_ours = False
        self.is_open = False
        # The log is held by the slave up to here; None before its first report.
        self.ack_offset: int | None = None
        # The log has been sent up to here.
        self.transfer_offset = 0

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
            for number in self._reports.feed(data):
                self._take(number)
        except StreamError as error:
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

    # Reports

    def _take(self, number: int) -> None:
        if self.ack_offset is not None:
            # A report of more than was sent would acknowledge messages that the slave does not have.
            if not 0 <= number <= self.transfer_offset:
                raise StreamError(f"it reports {number}, but was sent the log up to {self.transfer_offset} only")
            self.ack_offset = number
        elif number < 0:
            self.slave, self.is_ours = f"{number:x}", True
        else:
            self._begin(number)

    def _begin(self, reported: int) -> None:
        """Send the log from where the first report asks for."""
        first, end = self._store.log.first_offset, self._store.log.end_offset
        if reported == WHOLE_LOG:
            start, held = first, 0
        elif not reported:
            start, held = max(first, end - end % self._store.config.mapped_file_size_commit_log), 0
        elif first <= reported <= end:
            start = held = reported
        else:
            raise StreamError(
                f"it reports {reported}, but this log holds {first} to {end}; the slave has another log, or was away "
                "for too long: delete its store, so that it is copied anew"
            )
        self.ack_offset, self.transfer_offset = held, start
        log.info("slave %s holds the log up to %d, sending it from %d", self.address, held, start)
        self._sending = asyncio.create_task(self._send_log(start), name=f"replication to {self.address}")
        self._sending.add_done_callback(self._sending_ended)

    # Sending

    async def _send_log(self, offset: int) -> None:
        config, store = self._config, self._store
        size_max = INLINE_READ_SIZE_MAX if self.is_ours else config.ha_transfer_batch_size
        rate_max = config.max_ha_transfer_byte_in_second if config.ha_flow_control_enable else None
        while True:
            if offset == store.log.end_offset:
                await store.growth.wait(offset)
            allowed = size_max if rate_max is None else min(size_max, rate_max - self._rate.in_this_second)
            if allowed <= 0:
                await self._clock.sleep(self._rate.second_left)
                continue
            data = await store.read_log(offset, allowed)
            self._write(encode_header(offset, len(data)) + data)
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
        if isinstance(error, StoreError):
            log.warning("closing the connection of slave %s: %s", self.address, error)
        else:
            log.error("sending the log to slave %s failed", self.address, exc_info=error)
        self.close()

    # Housekeeping

    def tick(self) -> None:
        """Send a heartbeat if nothing was sent for long, and close if nothing was received for long."""
        now, config = self._clock.monotonic(), self._config
        if now - self._last_read > config.ha_housekeeping_interval / 1000:
            silent = now - self._last_read
            log.log(self._log_limit.level(), "closing the connection of %s: no report for %g s", self.address, silent)
            self.close()
            self._on_change(self)
        elif (
            self.ack_offset is not None
            and self._writable.is_set()
            and now - self._last_write >= config.ha_send_heartbeat_interval / 1000
        ):
            self._write(encode_header(self.transfer_offset, 0))

    def status(self) -> SlaveStatus:
        held = self.ack_offset or 0
        diff = self._store.log.end_offset - held
        is_in_sync = self.ack_offset is not None and diff < self._config.ha_max_gap_not_in_sync
        transfer_from = -1 if self.ack_offset is None else self.transfer_offset
        return SlaveStatus(self.address, held, diff, is_in_sync, self._rate.in_last_second, transfer_from)
