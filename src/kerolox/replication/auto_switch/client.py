"""A replica's end of replication in controller mode (AutoSwitchHAClient)."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from kerolox.errors import KeroloxError
from kerolox.replication.auto_switch.copies import SyncStateCopies
from kerolox.replication.auto_switch.epoch_log import EpochLog
from kerolox.replication.auto_switch.epochs import EpochEntry, Epochs, agreement
from kerolox.replication.auto_switch.frames import Chunk, Handshake, MasterFrames, MasterLog, Report
from kerolox.replication.classic_stream import StreamError
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.log_client import LogClient
from kerolox.runtime.clock import Clock
from kerolox.store.store import Store

log = logging.getLogger(__name__)


class RestartNeeded(KeroloxError):
    """The log goes beyond the master's and will be cut when the store is opened again."""


class LogsDiffer(KeroloxError):
    """The log of a replica cannot be made equal to its master's without losing what may have been acknowledged."""


@dataclass(frozen=True, slots=True)
class GroupReplica:
    """What a replica follows its master with."""

    handshake: Handshake
    store: Store
    epoch_log: EpochLog
    copies: SyncStateCopies
    # Called once when the store has to be closed and opened again, because its log is to be cut.
    on_restart_needed: Callable[[], None]


class AutoSwitchClient(LogClient):
    """Copies the log of the master that `set_master` names, from where both logs last agree.

    A log that goes beyond this point is cut first, which needs a restart of the store.
    """

    def __init__(self, replica: GroupReplica, config: ReplicationConfig, clock: Clock) -> None:
        super().__init__(replica.store, config, clock)
        self._handshake = replica.handshake
        self._epoch_log = replica.epoch_log
        self._copies = replica.copies
        self._on_restart_needed = replica.on_restart_needed
        self._frames = MasterFrames()
        # The master's epochs, once it has answered the handshake of this connection.
        self._master_epochs: Epochs | None = None

    def set_master(self, address: str | None) -> None:
        """Follow the master that listens for replicas at `address`; None to follow nobody."""
        self._set_address(address)

    def _greet(self) -> None:
        self._frames = MasterFrames()
        self._master_epochs = None
        self._write(self._handshake.encode())

    def _heartbeat(self) -> bytes:
        if self._master_epochs is None:
            return self._handshake.encode()
        return self._encode_report(self._reported)

    def _encode_report(self, held: int) -> bytes:
        return Report(held).encode()

    def _ends_for_good(self, error: BaseException | None) -> bool:
        if not isinstance(error, RestartNeeded):
            return False
        self._on_restart_needed()
        return True

    async def _receive(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if isinstance(frame, Chunk):
                await self._take(frame)
            elif self._master_epochs is None:
                await self._compare(frame)

    # Handshake

    async def _compare(self, master: MasterLog) -> None:
        """Find where the logs last agree, and report it; RestartNeeded if this log has to be cut there."""
        store = self._store
        own, own_end = self._epoch_log.epochs, store.log.end_offset
        if store.is_empty:
            own, own_end = Epochs(), 0
        written = own.until(own_end - 1)
        if master.epochs.last_epoch < written.last_epoch:
            # An old master that does not know yet that it is not one. Following it would cut acknowledged messages.
            raise LogsDiffer(
                f"the master has epoch {master.epochs.last_epoch}, this log messages of epoch {written.last_epoch}"
            )
        agreed = agreement(own, own_end, master.epochs, master.end_offset)
        if agreed is None or (agreed.offset and agreed.offset < store.log.first_offset):
            raise LogsDiffer(
                f"this log has nothing in common with the master's ({own!r} and {master.epochs!r}); if it can be "
                "given up, stop this broker and delete its store, so that it is copied anew"
            )
        if agreed.offset < own_end:
            if agreed.epochs.last_epoch == master.epochs.last_epoch:
                raise LogsDiffer(
                    f"this log holds {own_end} bytes, the master lost all after {agreed.offset} of the same epoch "
                    f"{master.epochs.last_epoch}; elect this replica, or delete its store, so that it is copied anew"
                )
            store.request_truncation(agreed.offset)
            raise RestartNeeded(f"the log is cut from {own_end} to {agreed.offset}, where it agrees with the master's")
        await self._epoch_log.replace(agreed.epochs)
        self._master_epochs = master.epochs
        self._reported = agreed.offset
        log.info("replicating from %s, from %d on, %r", self._master, agreed.offset, agreed.epochs)
        self._write(self._encode_report(agreed.offset))

    # Transfer

    async def _take(self, chunk: Chunk) -> None:
        store, master_epochs = self._store, self._learn(chunk.epoch)
        offset, data = chunk.physical_offset, chunk.data
        if not data and not store.is_empty:
            if offset != store.copy_offset:
                raise StreamError(f"the master continues at {offset}, this copy ends at {store.copy_offset}")
            if chunk.epoch.start_offset <= store.log.end_offset:
                await self._record(chunk.epoch)
        while data:
            # Not the epoch of the header: in RocketMQ the last frame of an epoch carries the next one's.
            entry = master_epochs.at(offset)
            if entry is None:
                raise StreamError(f"the master did not tell the epoch of the log at {offset}")
            size = min(len(data), master_epochs.end_of(entry, offset + len(data)) - offset)
            await self._record(entry)
            await store.append_copy(offset, data[:size])
            offset, data = offset + size, data[size:]
        self._copies.follow(min(chunk.confirm_offset, store.log.end_offset))

    def _learn(self, entry: EpochEntry) -> Epochs:
        """Return the epochs of the master with this one."""
        if self._master_epochs is None:
            raise StreamError("the master sent data before its handshake")
        if entry.epoch < self._epoch_log.epochs.last_epoch:
            raise StreamError(f"the master sent epoch {entry.epoch} after epoch {self._epoch_log.epochs.last_epoch}")
        if entry not in self._master_epochs.entries:
            try:
                self._master_epochs = self._master_epochs.with_entry(*entry)
            except ValueError as error:
                raise StreamError(f"the master sent {entry}: {error}") from error
        return self._master_epochs

    async def _record(self, entry: EpochEntry) -> None:
        """Make an epoch durable, before its first bytes are appended."""
        if entry in self._epoch_log.epochs.entries:
            return
        if entry.start_offset > self._store.log.end_offset and not self._store.is_empty:
            raise StreamError(f"epoch {entry.epoch} begins at {entry.start_offset}, within a record")
        await self._epoch_log.add(entry)
