"""The checkpoint: up to when log, queues and index are known to be on the disk.

int64  store time of the last durable record        int64  of the last that queues have durably
int64  of the last that the index has durably       int64  up to where a master has flushed (5.x)
int64  up to where the log is confirmed (5.x)       and nothing up to 4096 bytes, of which Java has no use:

there, from byte 1024 on, stands our seal.
"""

import struct
from pathlib import Path

from kerolox.runtime.files import Disk, File
from kerolox.store.errors import SyncFailed
from kerolox.store.log.syncing import sync_directory, sync_file

FILE_SIZE = 4096

_FIELDS = struct.Struct(">qqqqqq")
_LONG = struct.Struct(">q")
_INDEX_AT = 16
_SEAL_AT = 1024
_SEAL_SIZE_MAX = 512
# Records of one moment are not stored in the order of their times to the millisecond.
_MARGIN_MILLIS = 3000


class Checkpoint:
    """Its members are changed as things become durable, and reach the disk with `flush`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self.log_timestamp = 0
        self.queues_timestamp = 0
        self.index_timestamp = 0
        self.master_flushed_offset = 0
        self.confirmed_offset = 0
        # The field is there, and nobody has said what it means.
        self.queues_physical_offset = 0
        # As it stands in the file; empty if there is none.
        self.seal = self._seal_written = b""

    def load(self) -> None:
        """Reads the file. What is not there counts as 0, which is always safe: more is read again."""
        content = self._disk.read(self._path) or b""
        (
            self.log_timestamp,
            self.queues_timestamp,
            self.index_timestamp,
            self.master_flushed_offset,
            self.confirmed_offset,
            self.queues_physical_offset,
        ) = _FIELDS.unpack(content[: _FIELDS.size].ljust(_FIELDS.size, b"\0"))
        seal = content[_SEAL_AT : _SEAL_AT + _SEAL_SIZE_MAX]
        self.seal = self._seal_written = seal if any(seal) else b""

    @property
    def timestamps(self) -> tuple[int, int, int]:
        return self.log_timestamp, self.queues_timestamp, self.index_timestamp

    @property
    def min_timestamp(self) -> int:
        """Records stored up to this moment are durable in the log and in the queues."""
        return max(0, min(self.log_timestamp, self.queues_timestamp) - _MARGIN_MILLIS)

    @property
    def min_timestamp_index(self) -> int:
        """Records stored up to this moment are durable in the index, too."""
        return min(self.min_timestamp, self.index_timestamp)

    def flush(self) -> None:
        """Makes the members durable. May run in a thread.

        OSError if they could not be written: what stands in the file then is old or new, and both are true, so that it
        may be tried again. SyncFailed if it can no longer be known what is durable.
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
        # All of them lie in one sector, of which a disk writes all or nothing.
        self._file.write(0, content)
        if self.seal != self._seal_written:
            assert len(self.seal) <= _SEAL_SIZE_MAX
            # It has the times in it, too, and counts only if they agree.
            self._file.write(_SEAL_AT, self.seal.ljust(_SEAL_SIZE_MAX, b"\0"))
            self._seal_written = self.seal
        sync_file(self._file)

    def announce_index(self, timestamp: int) -> None:
        """Says up to when the index will be durable in a moment; OSError if it cannot be written.

        Nobody relies on it alone: what is read again is decided by the least of the times, and the others stay.
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
