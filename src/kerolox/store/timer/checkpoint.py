"""The timer's checkpoint: durable progress of enqueueing and delivery (TimerCheckpoint).

int64  everything due before it was delivered      int64  state version of the data
int64  durable end of the timer log                int64  timestamp of the version
int64  next queue offset to enqueue                int64  counter of the version
int64  the same, of the master                     8 bytes unused

Our own fields, which Java neither reads nor changes:

int64  physical offset of deliveries after the first field
int64  the first field again, and                  int64  the third: if they differ, Java has written since
int64  version of the counts at that time
int64  precision of the wheel
uint32 CRC-32 of all of the above

The rest of the 4096 bytes is zero.
"""

import struct
from pathlib import Path

from zlib_ng import zlib_ng

from kerolox.runtime.files import TEMPORARY_SUFFIX, Disk
from kerolox.store.log.fsync import sync_directory

FILE_SIZE = 4096

_FIELDS = struct.Struct(">qqqqqqq")
_OURS = struct.Struct(">8xqqqqq")
_CRC = struct.Struct(">I")


class TimerCheckpoint:
    """The fields change as things become durable, and reach the disk with `flush`."""

    def __init__(self, disk: Disk, path: Path, precision: int = 1000) -> None:
        self._disk = disk
        self._path = path
        self._precision = precision
        self.read_time = 0
        self.log_position = 0
        self.queue_offset = 0
        self.master_queue_offset = 0
        self.state_version = 0
        self.timestamp = 0
        self.counter = 0
        # Physical offset from which deliveries may be ahead of `read_time`; None if unknown.
        self.delivered_from: int | None = None
        # Version of the counts that match the other fields; None if unknown.
        self.counts_version: int | None = None
        # Precision with which the wheel was last written, if known; otherwise the configured one.
        self.wheel_precision = precision
        # Whether the file exists, and whether its checksum is ours: otherwise Java wrote it, or it is damaged.
        self.exists = self.is_checksum_valid = False

    def load(self) -> None:
        """Read the file. Missing fields count as 0."""
        found = self._disk.read(self._path)
        content = found or b""
        signed = content[: _FIELDS.size + _OURS.size]
        crc = content[len(signed) : len(signed) + _CRC.size]
        self.exists, self.is_checksum_valid = found is not None, crc == _CRC.pack(zlib_ng.crc32(signed))
        (
            self.read_time,
            self.log_position,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp,
            self.counter,
        ) = _FIELDS.unpack(content[: _FIELDS.size].ljust(_FIELDS.size, b"\0"))
        ours = content[_FIELDS.size :][: _OURS.size].ljust(_OURS.size, b"\0")
        delivered_from, *repeated, counts_version, wheel_precision = _OURS.unpack(ours)
        if self.counter and repeated == [self.read_time, self.queue_offset]:
            self.delivered_from, self.counts_version = delivered_from, counts_version
            self.wheel_precision = wheel_precision

    def reset_progress(self, log_offset: int) -> None:
        """Reset all progress: messages are enqueued again, and deliveries are looked for from `log_offset` on."""
        self.read_time = self.log_position = self.queue_offset = 0
        self.delivered_from, self.counts_version = log_offset, None
        self.wheel_precision = self._precision

    def set_progress(
        self,
        *,
        read_time: int,
        log_position: int,
        queue_offset: int,
        delivered_from: int,
        counts_version: int,
        now: int,
    ) -> None:
        """Set what is durable now; written by the next `flush`."""
        if (read_time, queue_offset) != (self.read_time, self.queue_offset):
            self.timestamp, self.counter = now, self.counter + 1
        self.read_time, self.log_position = read_time, log_position
        self.queue_offset = self.master_queue_offset = queue_offset
        self.delivered_from, self.counts_version = delivered_from, counts_version

    def flush(self) -> None:
        """Make all fields durable, atomically. May run in a thread.

        On OSError the file is unchanged; on SyncFailed it is unknown what a power cut would leave.
        """
        numbers = self.delivered_from or 0, self.read_time, self.queue_offset, self.counts_version or 0
        ours = _OURS.pack(*numbers, self._precision)
        # The fields depend on each other: a half-written file would lose messages.
        temporary = self._path.with_name(self._path.name + TEMPORARY_SUFFIX)
        signed = self.encode() + ours
        self._disk.write(temporary, (signed + _CRC.pack(zlib_ng.crc32(signed))).ljust(FILE_SIZE, b"\0"))
        sync_directory(self._disk, temporary)
        self._disk.rename(temporary, self._path)
        sync_directory(self._disk, self._path.parent)

    def follow(self, content: bytes) -> None:
        """Take over the response of a master to `encode`; ValueError if it is too short.

        As in Java only its progress and its version: positions in the timer log are those of its own files. RocketMQ
        before 5.3 sends no version.
        """
        if len(content) < _FIELDS.size - 24:
            raise ValueError(f"a timer checkpoint of {len(content)} bytes")
        fields = _FIELDS.unpack(content[: _FIELDS.size].ljust(_FIELDS.size, b"\0"))
        self.read_time, self.master_queue_offset = fields[0], fields[3]
        self.state_version, self.timestamp, self.counter = fields[4:]

    def encode(self) -> bytes:
        """Return the 56 bytes that a slave requests from its master."""
        return _FIELDS.pack(
            self.read_time,
            self.log_position,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp,
            self.counter,
        )
