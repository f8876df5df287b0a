"""The seal: up to where all is durable, and how to know that nobody has touched it since.

It stands in the checkpoint where Java has nothing, and ends with a checksum over itself:

 8s     mark                                    int64  up to where queues and index have the log durably
int64   how far the index goes, -1 if there is none
int64   entries in all queues together          int64  three: the times in the checkpoint
int32   number of marks, and for each of them:  int64  from  int64  up to  int64  records  uint32  CRC of these bytes
"""

import struct
from typing import Final, NamedTuple

import msgspec
from zlib_ng import zlib_ng

from kerolox.store.log.segments import Segments

# After a clean stop so many of the last files are read again, as the original does.
FILES_READ: Final = 3
# How far an index goes that nobody keeps.
NO_INDEX: Final = -1

_MAGIC = b"KEROLOX1"
_HEAD = struct.Struct(">8sqqqqqqi")
_MARK = struct.Struct(">qqqI")
_CRC = struct.Struct(">I")
_CHUNK_SIZE = 1024 * 1024


class Mark(msgspec.Struct, gc=False):
    """A checksum over the bytes of one file of the log, from its beginning."""

    start: int
    end: int
    records: int = 0
    crc: int = 0


class Marks:
    """Checksums over the last files of the log, which grow with it.

    They are of bytes that are known to be good: they were read and found so, or are being written.
    """

    def __init__(self, segment_size: int) -> None:
        self._segment_size = segment_size
        self._marks: list[Mark] = []

    def load(self, marks: list[Mark]) -> None:
        self._marks = [msgspec.structs.replace(mark) for mark in marks]

    @property
    def end_offset(self) -> int:
        return self._marks[-1].end if self._marks else 0

    def add(self, offset: int, data: bytes | memoryview, records: int) -> None:
        """Goes on with what follows; if it does not, nothing is known until the next file begins."""
        start = offset - offset % self._segment_size
        if not self._marks or self._marks[-1].start != start:
            if offset != start:
                self.clear()
                return
            self._marks = [*self._marks[1 - FILES_READ :], Mark(start, start)]
        mark = self._marks[-1]
        if offset != mark.end:
            self.clear()
            return
        mark.crc = zlib_ng.crc32(data, mark.crc)
        mark.end += len(data)
        mark.records += records

    def clear(self) -> None:
        self._marks = []

    def copy(self, first_offset: int) -> list[Mark]:
        """Returns the marks if they are of as many files as are read again; `first_offset` is where the log begins."""
        marks = [msgspec.structs.replace(mark) for mark in self._marks if mark.start >= first_offset]
        is_enough = bool(marks) and (len(marks) == FILES_READ or marks[0].start == first_offset)
        return marks if is_enough else []


class Seal(NamedTuple):
    dispatched_offset: int
    index_offset: int
    entries: int
    timestamps: tuple[int, int, int]
    marks: list[Mark]

    def encode(self) -> bytes:
        fields = self.dispatched_offset, self.index_offset, self.entries, *self.timestamps, len(self.marks)
        packed = [_MARK.pack(mark.start, mark.end, mark.records, mark.crc) for mark in self.marks]
        data = b"".join([_HEAD.pack(_MAGIC, *fields), *packed])
        return data + _CRC.pack(zlib_ng.crc32(data))

    def unbroken(self, segments: Segments, offset: int) -> list[Mark]:
        """Returns the marks of the files from `offset` on if all that is marked is as it was; reads all of it."""
        marks = [mark for mark in self.marks if mark.start >= segments.first_offset and mark.end > offset]
        if self.dispatched_offset < segments.first_offset:
            return []
        return marks if all(_crc(segments, mark) == mark.crc for mark in marks) else []


def decode(data: bytes) -> Seal | None:
    """Returns a seal from bytes that begin with it; None if they do not."""
    if not data.startswith(_MAGIC) or len(data) < _HEAD.size:
        return None
    _, dispatched, index_end, entries, *timestamps, count = _HEAD.unpack_from(data)
    end = _HEAD.size + count * _MARK.size
    if not 0 < count <= FILES_READ or len(data) < end + _CRC.size:
        return None
    if _CRC.unpack_from(data, end)[0] != zlib_ng.crc32(data[:end]):
        return None
    marks = [Mark(*fields) for fields in _MARK.iter_unpack(data[_HEAD.size : end])]
    log, queues, index = timestamps
    return Seal(dispatched, index_end, entries, (log, queues, index), marks)


def _crc(segments: Segments, mark: Mark) -> int:
    crc, at = 0, mark.start
    while at < mark.end:
        data = segments.read(at, min(_CHUNK_SIZE, mark.end - at))
        if not data:
            return -1
        crc = zlib_ng.crc32(data, crc)
        at += len(data)
    return crc
