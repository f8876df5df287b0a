"""Reads a commit log record by record, trusting nothing."""

from collections.abc import Iterator
from typing import NamedTuple

from kerolox.message.errors import RecordError
from kerolox.message.peek import Peek, peek
from kerolox.message.record import BLANK_MAGIC, MAGIC_V1, MAGIC_V2, size_and_magic
from kerolox.store.segments import Segments

_CHUNK_SIZE = 1024 * 1024
_HEAD_SIZE = 8
# The least that a disk writes whole.
_SECTOR_SIZE = 512
_NO_SECTOR = bytes(_SECTOR_SIZE)
_MAGICS = (MAGIC_V1.to_bytes(4), MAGIC_V2.to_bytes(4))


class Damage(NamedTuple):
    """A range that holds no record."""

    offset: int
    end_offset: int
    reason: str


class Scan:
    """Goes from record to record; where one is damaged it looks for the next that is not.

    A record is trusted only if its size fits, its checksum agrees and it says itself that it lies where it does.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._chunk = b""
        self._chunk_offset = 0
        # After these, by the start of their file, nothing was ever written.
        self._data_ends: dict[int, int] = {}
        # The end of the last good record, or of the blank after it.
        self.end_offset = 0
        # Between good records; never served, never cut.
        self.damages: list[Damage] = []
        # After the last good record, if there is more than zeros.
        self.torn: Damage | None = None

    def records(self, offset: int) -> Iterator[tuple[Peek, int]]:
        """Yields what is in each record from `offset` on, and where it lies."""
        self.end_offset = offset
        starts = [start for start in self._segments.starts if start >= self._segments.start_of(offset)]
        self._data_ends = {start: self._segments.data_end(start) for start in starts}
        while offset < self._segments.end_offset:
            found = self.record_at(offset)
            if isinstance(found, Peek):
                yield found, offset
                offset += found.size
                self.end_offset = offset
            elif found is None:
                offset += self._segments.room_after(offset)
                self.end_offset = offset
            else:
                following = self._next_good(offset)
                if following is None:
                    self._note_torn(offset, found)
                    return
                self.damages.append(Damage(offset, following, found))
                offset = following

    def record_at(self, offset: int) -> Peek | str | None:
        """Returns the record at `offset`, None if it is a blank, or what is wrong with it."""
        room = self._segments.room_after(offset)
        head = self._bytes(offset, _HEAD_SIZE)
        if len(head) < _HEAD_SIZE:
            return "no room for a record"
        size, magic = size_and_magic(head)
        if magic == BLANK_MAGIC and size == room:
            return None
        if magic not in (MAGIC_V1, MAGIC_V2) or not _HEAD_SIZE < size <= room:
            return f"magic {magic:#x} and size {size} are not those of a record"
        try:
            record = peek(self._bytes(offset, size), check_crc=True)
        except RecordError as error:
            return str(error)
        if record.physical_offset != offset:
            return f"a record that says it lies at {record.physical_offset}"
        if _is_torn(record):
            return f"the record at {offset} has zeros where text should be"
        return record

    def _next_good(self, offset: int) -> int | None:
        """Returns where the next good record after `offset` begins."""
        at = offset + 1
        while (at := self._skip(at)) < self._segments.end_offset:
            chunk = self._bytes(at, min(_CHUNK_SIZE, self._segments.room_after(at)))
            position = 0
            while (position := _first(chunk, position)) >= 0:
                candidate = at + position - 4
                if candidate > offset and isinstance(self.record_at(candidate), Peek):
                    return candidate
                position += 1
            # A magic may lie across two chunks, but not across two files.
            step = len(chunk) - 3 if len(chunk) < self._segments.room_after(at) else len(chunk)
            at += max(step, 1)
        return None

    def _skip(self, at: int) -> int:
        """Returns where to go on reading: what was reserved for later, and never written, has only zeros."""
        segments = self._segments
        while at < segments.end_offset:
            if at < self._data_ends.get(segments.start_of(at), segments.end_offset):
                break
            at += segments.room_after(at)
        return at

    def _note_torn(self, offset: int, reason: str) -> None:
        at, end = offset, offset
        while (at := self._skip(at)) < self._segments.end_offset:
            piece = self._segments.read(at, _CHUNK_SIZE)
            if any(piece):
                end = at + len(piece.rstrip(b"\0"))
            at += len(piece)
        if end > offset:
            self.torn = Damage(offset, end, reason)

    def _bytes(self, offset: int, size: int) -> bytes:
        start = offset - self._chunk_offset
        if start < 0 or start + size > len(self._chunk):
            self._chunk = self._segments.read(offset, max(size, _CHUNK_SIZE))
            self._chunk_offset, start = offset, 0
        return self._chunk[start : start + size]


def _is_torn(record: Peek) -> bool:
    """Whether the end of the record, or a whole sector of its properties, never reached the disk.

    No checksum covers what follows the body, but no topic has a zero in it, and no properties end with one.
    """
    properties = record.properties
    if properties.endswith(b"\0") or "\0" in record.topic:
        return True
    if _NO_SECTOR not in properties:
        return False
    start = record.physical_offset + record.size - len(properties)
    sectors = range(-start % _SECTOR_SIZE, len(properties) - _SECTOR_SIZE + 1, _SECTOR_SIZE)
    return any(properties[at : at + _SECTOR_SIZE] == _NO_SECTOR for at in sectors)


def _first(chunk: bytes, position: int) -> int:
    """Returns where the first magic of a record stands from `position` on, or -1."""
    found = [at for magic in _MAGICS if (at := chunk.find(magic, position)) >= 0]
    return min(found, default=-1)
