"""The `checkpoint` file: up to which time log, queues and index are durable (StoreCheckpoint).

int64  store timestamp of the last durable record   int64  of the last record with a durable queue entry
int64  of the last record durable in the index      int64  flushed offset of the master (5.x)
int64  confirmed physical offset (5.x)              int64  physical offset of queues

Java leaves the rest of the 4096 bytes unused. Our log checksums are stored from byte 1024 on.
"""

import struct
from pathlib import Path

from kerolox.runtime.files import Disk, File
from kerolox.store.errors import SyncFailed
from kerolox.store.log.fsync import sync_directory, sync_file

FILE_SIZE = 4096

_FIELDS = struct.Struct(">qqqqqq")
_LONG = struct.Struct(">q")
_INDEX_AT = 16
_CHECKSUMS_AT = 1024
_CHECKSUMS_SIZE_MAX = 512
# Store timestamps in the log are not strictly ascending; Java uses the same margin.
_MARGIN_MILLIS = 3000


class Checkpoint:
    """The fields change as things become durable, and reach the disk with `flush`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self.log_timestamp = 0
        self.queues_timestamp = 0
        self.index_timestamp = 0
        self.master_flushed_offset = 0
        self.confirmed_offset = 0
        # In the file of 5.x; not used here.
        self.queues_physical_offset = 0
        # Encoded LogChecksums; empty if there are none.
        self.log_checksums = self._checksums_written = b""

    def load(self) -> None:
        """Read the file. Missing fields count as 0, which is always safe: recovery then reads more of the log."""
        content = self._disk.read(self._path) or b""
        (
            self.log_timestamp,
            self.queues_timestamp,
            self.index_timestamp,
            self.master_flushed_offset,
            self.confirmed_offset,
            self.queues_physical_offset,
        ) = _FIELDS.unpack(content[: _FIELDS.size].ljust(_FIELDS.size, b"\0"))
        checksums = content[_CHECKSUMS_AT : _CHECKSUMS_AT + _CHECKSUMS_SIZE_MAX]
        self.log_checksums = self._checksums_written = checksums if any(checksums) else b""

    @property
    def timestamps(self) -> tuple[int, int, int]:
        return self.log_timestamp, self.queues_timestamp, self.index_timestamp

    @property
    def min_timestamp(self) -> int:
        """Records with a store timestamp up to this one are durable in the log and in the queues."""
        return max(0, min(self.log_timestamp, self.queues_timestamp) - _MARGIN_MILLIS)

    def lower(self, timestamp: int, end_offset: int) -> None:
        """Claim only that records up to `timestamp` are durable, for a log that is cut at `end_offset`."""
        claimed = timestamp + _MARGIN_MILLIS if timestamp else 0
        self.log_timestamp = min(self.log_timestamp, claimed)
        self.queues_timestamp = min(self.queues_timestamp, claimed)
        self.index_timestamp = min(self.index_timestamp, claimed)
        self.master_flushed_offset = min(self.master_flushed_offset, end_offset)
        self.confirmed_offset = min(self.confirmed_offset, end_offset)
        self.queues_physical_offset = min(self.queues_physical_offset, end_offset)
        self.log_checksums = b""

    def flush(self) -> None:
        """Make the fields durable. May run in a thread.

        On OSError the file holds old or new values, and both are true, so that the caller may retry. SyncFailed if it
        is unknown what is durable.
        """
        content = _FIELDS.pack(
            self.log_timestamp,
            self.queues_timestamp,
            self.index_timestamp,
            self.master_flushed_offset,
            self.confirmed_offset,
            self.queues_physical_offset,
        )
        if self._file is None:
            self._file = self._open()
        # All fields are in one sector, which a disk writes completely or not at all.
        self._file.write(0, content)
        if self.log_checksums != self._checksums_written:
            assert len(self.log_checksums) <= _CHECKSUMS_SIZE_MAX
            # They repeat the timestamps, and are valid only if those are equal: a torn write is detected.
            self._file.write(_CHECKSUMS_AT, self.log_checksums.ljust(_CHECKSUMS_SIZE_MAX, b"\0"))
            self._checksums_written = self.log_checksums
        sync_file(self._file)

    def announce_index(self, timestamp: int) -> None:
        """Write the timestamp up to which the index is about to become durable; OSError if that fails.

        Writing it early is safe: recovery starts at the smallest of the timestamps, and the others stay as they are.
        """
        if self._file is None:
            self._file = self._open()
        if timestamp > self.index_timestamp:
            self._file.write(_INDEX_AT, _LONG.pack(timestamp))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> File:
        file = self._disk.open(self._path, create=True)
        try:
            size = file.size()
            if size < FILE_SIZE:
                file.write(size, bytes(FILE_SIZE - size))
            sync_file(file)
            sync_directory(self._disk, self._path.parent)
        except (OSError, SyncFailed):
            file.close()
            raise
        return file
