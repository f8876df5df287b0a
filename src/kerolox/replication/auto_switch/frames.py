"""Frames of the HA stream in controller mode (AutoSwitchHAConnection, AutoSwitchHAClient).

Replica to master:

    handshake  int32 1   int16 from last file   int16 learner   int64 broker id
    report     int32 2   int64 end of the replica's log

Master to replica:

    handshake  int32 1   int32 size of the entries   int64 end of the master's log   int32 its last epoch, or -1
               entries: int32 epoch   int64 start offset
    transfer   int32 2   int32 size of the data   int64 physical offset   int32 epoch   int64 start of the epoch
               int64 confirm offset   data: bytes of the log; none in a heartbeat

All numbers are signed and big-endian.
"""

import struct
from typing import NamedTuple, TypeAlias

from kerolox.errors import ProtocolError
from kerolox.replication.auto_switch.epochs import ENTRIES_MAX, EpochEntry, Epochs, epochs_of

_HANDSHAKE, _TRANSFER = 1, 2

_KIND = struct.Struct(">i")
_HELLO = struct.Struct(">ihhq")
_REPORT = struct.Struct(">iq")
_WELCOME = struct.Struct(">iiqi")
_ENTRY = struct.Struct(">iq")
_CHUNK = struct.Struct(">iiqiqq")

# RocketMQ reads into a buffer of 4 MiB, which a frame must fit into.
FRAME_SIZE_MAX = 4 * 1024 * 1024
CHUNK_SIZE_MAX = FRAME_SIZE_MAX - _CHUNK.size


class Handshake(NamedTuple):
    """The first message of a replica."""

    broker_id: int
    # An empty replica starts with the last file of the log instead of the first.
    is_from_last_file: bool = False
    # A learner copies the log, but never enters the sync state set.
    is_learner: bool = False

    def encode(self) -> bytes:
        return _HELLO.pack(_HANDSHAKE, self.is_from_last_file, self.is_learner, self.broker_id)


class Report(NamedTuple):
    """The end of the log that a replica holds."""

    end_offset: int

    def encode(self) -> bytes:
        return _REPORT.pack(_TRANSFER, self.end_offset)


class MasterLog(NamedTuple):
    """The answer of a master to a handshake."""

    end_offset: int
    epochs: Epochs

    def encode(self) -> bytes:
        entries = self.epochs.entries[-ENTRIES_MAX:]
        packed = b"".join(_ENTRY.pack(*entry) for entry in entries)
        return _WELCOME.pack(_HANDSHAKE, len(packed), self.end_offset, self.epochs.last_epoch) + packed


class Chunk(NamedTuple):
    """A part of the log of one epoch; without data it is a heartbeat."""

    physical_offset: int
    epoch: EpochEntry
    confirm_offset: int
    data: bytes = b""

    def encode(self) -> bytes:
        head = _CHUNK.pack(_TRANSFER, len(self.data), self.physical_offset, *self.epoch, self.confirm_offset)
        return head + self.data


FromReplica: TypeAlias = Handshake | Report
FromMaster: TypeAlias = MasterLog | Chunk


class ReplicaFrames:
    """Decodes what a replica sends."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> list[FromReplica]:
        """Return the frames that are complete now; ProtocolError if one is not of this stream."""
        self._unread += data
        found: list[FromReplica] = []
        at = 0
        while len(self._unread) - at >= _KIND.size:
            (kind,) = _KIND.unpack_from(self._unread, at)
            size = _HELLO.size if kind == _HANDSHAKE else _REPORT.size
            if kind not in (_HANDSHAKE, _TRANSFER):
                raise ProtocolError(f"a replica sent a frame of kind {kind}, which is neither handshake nor report")
            if len(self._unread) - at < size:
                break
            if kind == _HANDSHAKE:
                _, from_last_file, learner, broker_id = _HELLO.unpack_from(self._unread, at)
                found.append(Handshake(broker_id, bool(from_last_file), bool(learner)))
            else:
                _, end_offset = _REPORT.unpack_from(self._unread, at)
                found.append(Report(end_offset))
            at += size
        del self._unread[:at]
        return found


class MasterFrames:
    """Decodes what a master sends."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> list[FromMaster]:
        """Return the frames that are complete now; ProtocolError if one is malformed or too large."""
        self._unread += data
        found: list[FromMaster] = []
        at = 0
        while (frame := self._frame(at)) is not None:
            decoded, at = frame
            found.append(decoded)
        del self._unread[:at]
        return found

    def _frame(self, at: int) -> tuple[FromMaster, int] | None:
        """Return the frame at an index of the unread bytes, and the end of it; None if it is not complete."""
        unread = self._unread
        if len(unread) - at < _WELCOME.size:
            return None
        kind, size = struct.unpack_from(">ii", unread, at)
        head_size = {_HANDSHAKE: _WELCOME.size, _TRANSFER: _CHUNK.size}.get(kind, 0)
        if not head_size:
            raise ProtocolError(f"a master sent a frame of kind {kind}, which is neither handshake nor transfer")
        size_max = ENTRIES_MAX * _ENTRY.size if kind == _HANDSHAKE else CHUNK_SIZE_MAX
        if not 0 <= size <= size_max:
            raise ProtocolError(f"a master sent a frame with {size} bytes, at most {size_max} are allowed")
        start, end = at + head_size, at + head_size + size
        if len(unread) < end:
            return None
        if kind == _HANDSHAKE:
            return _master_log(unread, at, start, end), end
        _, _, physical_offset, epoch, epoch_start, confirm_offset = _CHUNK.unpack_from(unread, at)
        return Chunk(physical_offset, EpochEntry(epoch, epoch_start), confirm_offset, bytes(unread[start:end])), end


def _master_log(unread: bytearray, at: int, start: int, end: int) -> MasterLog:
    _, size, end_offset, _ = _WELCOME.unpack_from(unread, at)
    if size % _ENTRY.size:
        raise ProtocolError(f"a master sent {size} bytes of epochs, which is not a multiple of {_ENTRY.size}")
    entries = [EpochEntry(*fields) for fields in _ENTRY.iter_unpack(unread[start:end])]
    try:
        return MasterLog(end_offset, epochs_of(entries))
    except ValueError as error:
        raise ProtocolError(f"a master sent epochs out of order: {error}") from error
