"""The timer's checkpoint: how far messages have been entered and delivered, durably.

int64  everything due before it was delivered      int64  state version of these data
int64  the timer log is durable up to here         int64  when they changed
int64  the next queue offset to be entered         int64  how often they did
int64  the same, as the master has it              and, after eight bytes, what Java neither reads nor changes:

int64  where in the commit log deliveries begin that the first two fields do not tell of
int64  the first field again, and                  int64  the third: if they differ, Java was here since
int64  the version of the counts that were true then
int64  the precision of the wheel

Nothing follows up to 4096 bytes.
"""

import struct
from pathlib import Path

from kerolox.runtime.files import TEMPORARY_SUFFIX, Disk
from kerolox.store.log.syncing import sync_directory

FILE_SIZE = 4096

_FIELDS = struct.Struct(">qqqqqqq")
_OURS = struct.Struct(">8xqqqqq")


class TimerCheckpoint:
    """Its members are changed as things become durable, and reach the disk with `flush`."""

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
        # Deliveries that a crash would have done again lie from here on; None if it is not known.
        self.delivered_from: int | None = None
        # The version of the counts that agree with the other members; None if it is not known.
        self.counts_version: int | None = None
        # The precision of the wheel when it was last written, if that is known; else what it is to be.
        self.wheel_precision = precision

    def load(self) -> None:
        """Reads the file. What is not there counts as 0."""
        content = self._disk.read(self._path) or b""
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

    def move(
        self,
        *,
        read_time: int,
        log_position: int,
        queue_offset: int,
        delivered_from: int,
        counts_version: int,
        now: int,
    ) -> None:
        """Notes what is durable now; it is written with the next `flush`."""
        if (read_time, queue_offset) != (self.read_time, self.queue_offset):
            self.timestamp, self.counter = now, self.counter + 1
        self.read_time, self.log_position = read_time, log_position
        self.queue_offset = self.master_queue_offset = queue_offset
        self.delivered_from, self.counts_version = delivered_from, counts_version

    def flush(self) -> None:
        """Makes the members durable, all or none of them. May run in a thread.

        OSError if the file is as it was, and SyncFailed if it is not known what a power cut would leave of it.
        """
        numbers = self.delivered_from or 0, self.read_time, self.queue_offset, self.counts_version or 0
        ours = _OURS.pack(*numbers, self._precision)
        # The members rely on each other: a file that is half old and half new would lose messages.
        temporary = self._path.with_name(self._path.name + TEMPORARY_SUFFIX)
        self._disk.write(temporary, (self.encode() + ours).ljust(FILE_SIZE, b"\0"))
        sync_directory(self._disk, temporary)
        self._disk.rename(temporary, self._path)
        sync_directory(self._disk, self._path.parent)

    def encode(self) -> bytes:
        """Returns the 56 bytes that a slave asks its master for."""
        return _FIELDS.pack(
            self.read_time,
            self.log_position,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp,
            self.counter,
        )
