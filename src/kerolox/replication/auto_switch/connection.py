"""A master's connection to one replica of its group (AutoSwitchHAConnection)."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kerolox.remoting.server.connection_limit import LogLimit
from kerolox.replication.auto_switch.copies import SyncStateCopies
from kerolox.replication.auto_switch.epoch_log import EpochLog
from kerolox.replication.auto_switch.epochs import EpochEntry
from kerolox.replication.auto_switch.frames import CHUNK_SIZE_MAX, Chunk, Handshake, MasterLog, ReplicaFrames
from kerolox.replication.classic_stream import StreamError
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.replica_connection import ReplicaConnection
from kerolox.runtime.clock import Clock
from kerolox.store.store import Store


class GroupMaster(NamedTuple):
    """What a master serves replicas with."""

    broker_id: int
    store: Store
    epoch_log: EpochLog
    copies: SyncStateCopies


class AutoSwitchConnection(ReplicaConnection):
    """Answers the handshake of a replica, and sends the log from its first report on.

    A frame lies in one file and in one epoch, and carries the number and the start of its own epoch. In RocketMQ the
    last frame of an epoch carries the next one's.
    """

    def __init__(
        self,
        master: GroupMaster,
        config: ReplicationConfig,
        clock: Clock,
        on_change: Callable[[Any], None],
        log_limit: LogLimit,
    ) -> None:
        super().__init__(master.store, config, clock, on_change, log_limit)
        self._own_id, _, self._epoch_log, self._copies = master
        self._frames = ReplicaFrames()
        self._handshake: Handshake | None = None
        # The end of this log when data was last sent, and the time of that.
        self._sent = 0, 0.0
        self._confirm_sent = 0

    @property
    def broker_id(self) -> int | None:
        return None if self._handshake is None else self._handshake.broker_id

    def _receive(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if isinstance(frame, Handshake):
                self._greet(frame)
            else:
                self._take(frame.end_offset)

    def _greet(self, handshake: Handshake) -> None:
        if handshake.broker_id == self._own_id:
            raise StreamError(f"it has the broker id {self._own_id} of this master")
        if self.ack_offset is not None or (self._handshake is not None and handshake != self._handshake):
            raise StreamError("it sent a second handshake")
        if self._copies.members is None:
            raise StreamError("this broker is not the master of its group")
        if self._handshake is None:
            self._handshake = handshake
            self.slave = str(handshake.broker_id)
            # The owner closes an earlier connection of this replica, before this one counts.
            self._on_change(self)
            self._copies.connected(handshake.broker_id, is_learner=handshake.is_learner)
        # A replica that has waited for long repeats its handshake.
        self._write(MasterLog(self._store.log.end_offset, self._epoch_log.epochs).encode())

    def _take(self, reported: int) -> None:
        if self._handshake is None:
            raise StreamError("it reports before its handshake")
        end = self._store.log.end_offset
        if self.ack_offset is None:
            self._begin(reported)
        elif not 0 <= reported <= self.transfer_offset:
            # A report of more than was sent would acknowledge messages that the replica does not have.
            raise StreamError(f"it reports {reported}, but was sent the log up to {self.transfer_offset} only")
        self.ack_offset = reported
        if not self._copies.reported(self._handshake.broker_id, reported, sent=self._sent, end=end):
            raise StreamError("this broker is not the master of its group any more")

    def _begin(self, reported: int) -> None:
        assert self._handshake is not None
        first, end = self._store.log.first_offset, self._store.log.end_offset
        start = reported
        if not reported:
            start = first
            if self._handshake.is_from_last_file:
                start = max(first, end - end % self._store.config.mapped_file_size_commit_log)
        elif not first <= reported <= end:
            raise StreamError(
                f"it reports {reported}, but this log holds {first} to {end}; the replica was away for too long: "
                "delete its store, so that it is copied anew"
            )
        self._sent = end, self._clock.monotonic()
        self._begin_sending(start, held=reported)

    def _chunk_size_max(self, offset: int) -> int:
        epochs = self._epoch_log.epochs
        left = epochs.end_of(self._epoch_at(offset), self._store.log.end_offset) - offset
        return min(self._config.ha_transfer_batch_size, CHUNK_SIZE_MAX, left)

    def _encode(self, offset: int, data: bytes) -> bytes:
        end, now = self._store.log.end_offset, self._clock.monotonic()
        if data:
            self._sent = end, now
        self._confirm_sent = self._copies.confirm_offset()
        return Chunk(offset, self._epoch_at(offset), self._confirm_sent, data).encode()

    def _epoch_at(self, offset: int) -> EpochEntry:
        entry = self._epoch_log.epochs.at(offset)
        if entry is None:
            raise StreamError(f"the epoch of the log at {offset} is unknown")
        return entry

    def _is_heartbeat_due(self, now: float) -> bool:
        # Readers of a replica see nothing after the confirm offset, so it is told even if the log does not grow.
        return super()._is_heartbeat_due(now) or self._confirm_sent != self._copies.confirm_offset()

    def close(self) -> None:
        handshake, self._handshake = self._handshake, None
        super().close()
        if handshake is not None:
            self._copies.disconnected(handshake.broker_id)
