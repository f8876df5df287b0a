"""Checksums over the end of the commit log, so that a clean start need not read it record by record.

They are stored in the unused part of the checkpoint:

 8s     magic                                   int64  dispatched up to this offset, and durable
int64   end of the index, -1 if there is none
int64   number of entries in all queues         int64  three: the timestamps of the checkpoint
int32   number of file checksums, each of:      int64  start  int64  end  int64  records  uint32  CRC-32
uint32  CRC-32 of all of the above
"""

import struct
from typing import Final, NamedTuple

import msgspec
from zlib_ng import zlib_ng

from kerolox.store.log.segments import Segments

# Commit log files that are read again after a clean stop, as in Java.
FILES_READ: Final = 3
# End of the index of a store without one.
NO_INDEX: Final = -1

_MAGIC = b"KEROLOX1"
_HEAD = struct.Struct(">8sqqqqqqi")
_CHECKSUM = struct.Struct(">qqqI")
_CRC = struct.Struct(">I")
_CHUNK_SIZE = 1024 * 1024


class FileChecksum(msgspec.Struct, gc=False):
    """Checksum over the first bytes of one file of the log."""

    start: int
    end: int
    records: int = 0
    crc: int = 0


class FileChecksums:
    """Running checksums over the last files of the log.

    They cover only bytes that are known to be good: verified by recovery, or just written.
    """

    def __init__(self, segment_size: int) -> None:
        self._segment_size = segment_size
        self._checksums: list[FileChecksum] = []

    def load(self, checksums: list[FileChecksum]) -> None:
        self._checksums = [msgspec.structs.replace(checksum) for checksum in checksums]

    @property
    def end_offset(self) -> int:
        return self._checksums[-1].end if self._checksums else 0

    def add(self, offset: int, data: bytes | memoryview, records: int) -> None:
        """Add data at `offset`. If it is not contiguous, all checksums are dropped until the next file begins."""
        start = offset - offset % self._segment_size
        if not self._checksums or self._checksums[-1].start != start:
            if offset != start:
                self.clear()
                return
            self._checksums = [*self._checksums[1 - FILES_READ :], FileChecksum(start, start)]
        checksum = self._checksums[-1]
        if offset != checksum.end:
            self.clear()
            return
        checksum.crc = zlib_ng.crc32(data, checksum.crc)
        checksum.end += len(data)
        checksum.records += records

    def clear(self) -> None:
        self._checksums = []

    def copy(self, first_offset: int) -> list[FileChecksum]:
        """Return the checksums if they cover all files that a start reads; `first_offset` is the start of the log."""
        checksums = [
            msgspec.structs.replace(checksum) for checksum in self._checksums if checksum.start >= first_offset
        ]
        is_enough = bool(checksums) and (len(checksums) == FILES_READ or checksums[0].start == first_offset)
        return checksums if is_enough else []


class LogChecksums(NamedTuple):
    """Checksums in the checkpoint; valid if they have the timestamps of the checkpoint."""

    dispatched_offset: int
    index_offset: int
    entries: int
    timestamps: tuple[int, int, int]
    checksums: list[FileChecksum]

    def encode(self) -> bytes:
        fields = self.dispatched_offset, self.index_offset, self.entries, *self.timestamps, len(self.checksums)
        packed = [
            _CHECKSUM.pack(checksum.start, checksum.end, checksum.records, checksum.crc) for checksum in self.checksums
        ]
        data = b"".join([_HEAD.pack(_MAGIC, *fields), *packed])
        return data + _CRC.pack(zlib_ng.crc32(data))

    def verified(self, segments: Segments, offset: int) -> list[FileChecksum]:
        """Return the checksums of the files from `offset` on if all of them match; reads all those bytes."""
        checksums = [
            checksum for checksum in self.checksums if checksum.start >= segments.first_offset and checksum.end > offset
        ]
        if self.dispatched_offset < segments.first_offset:
            return []
        return checksums if all(_crc(segments, checksum) == checksum.crc for checksum in checksums) else []


def decode(data: bytes) -> LogChecksums | None:
    """Decode checksums; None if the data does not begin with valid ones."""
    if not data.startswith(_MAGIC) or len(data) < _HEAD.size:
        return None
    _, dispatched, index_end, entries, *timestamps, count = _HEAD.unpack_from(data)
    end = _HEAD.size + count * _CHECKSUM.size
    if not 0 < count <= FILES_READ or len(data) < end + _CRC.size:
        return None
    if _CRC.unpack_from(data, end)[0] != zlib_ng.crc32(data[:end]):
        return None
    checksums = [FileChecksum(*fields) for fields in _CHECKSUM.iter_unpack(data[_HEAD.size : end])]
    log, queues, index = timestamps
    return LogChecksums(dispatched, index_end, entries, (log, queues, index), checksums)


def _crc(segments: Segments, checksum: FileChecksum) -> int:
    crc, at = 0, checksum.start
    while at < checksum.end:
        data = segments.read(at, min(_CHUNK_SIZE, checksum.end - at))
        if not data:
            return -1
        crc = zlib_ng.crc32(data, crc)
        at += len(data)
    return crc
