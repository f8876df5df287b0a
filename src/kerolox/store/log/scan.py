"""Reads a commit log record by record, trusting nothing."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerolox.message.columns import Columns, peek_columns
from kerolox.message.errors import RecordError
from kerolox.message.peek import Peek, is_torn, peek
from kerolox.message.record import BLANK_MAGIC, BLANK_SIZE_MIN, MAGIC_V1, MAGIC_V2, size_and_magic
from kerolox.store.log.segments import Segments
from kerolox.store.seal import Marks

_CHUNK_SIZE = 1024 * 1024
# What is left of a chunk and is no more than this is read again with what follows it.
_TAIL_SIZE = 64 * 1024
_HEAD_SIZE = 8
_ZEROS = bytes(_CHUNK_SIZE)
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

    def __init__(self, segments: Segments, marks: Marks | None = None) -> None:
        self._segments = segments
        # Are to know the checksum of what was read and found good.
        self._marks = marks
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
        # Where the last byte ends that is not zero.
        self._stray_end = 0

    def records(self, offset: int) -> Iterator[tuple[Peek, int]]:
        """Yields what is in each record from `offset` on, and where it lies."""
        for run in self.runs(offset):
            for record in run:
                yield record, record.physical_offset

    def runs(self, offset: int) -> Iterator[list[Peek]]:
        """Yields the same, as many records at a time as lie together."""
        return (run.peeks() for run in self.columns(offset))

    def columns(self, offset: int) -> Iterator[Columns]:
        """Yields the same as columns."""
        self.end_offset = offset
        starts = [start for start in self._segments.starts if start >= self._segments.start_of(offset)]
        self._data_ends = {start: self._segments.data_end(start) for start in starts}
        while offset < self._segments.end_offset:
            run = self._run_at(offset)
            found = None if run else self.record_at(offset)
            if isinstance(found, Peek):
                run = Columns.of([found])
            if run:
                end = run.end_offset
                self._mark(offset, end, run.physical_offsets)
                self.end_offset = offset = end
                yield run
            elif not isinstance(found, str):
                self._mark(offset, offset + BLANK_SIZE_MIN, [])
                offset += self._segments.room_after(offset)
                self.end_offset = offset
            else:
                following = self._next_good(offset)
                if following is None:
                    if self._stray_end > offset:
                        self.torn = Damage(offset, self._stray_end, found)
                    return
                self.damages.append(Damage(offset, following, found))
                if self._marks is not None:
                    self._marks.clear()
                offset = following

    def _mark(self, offset: int, end: int, physical_offsets: Sequence[int]) -> None:
        marks = self._marks
        if marks is None or end <= marks.end_offset:
            return
        if offset < marks.end_offset:
            offset = marks.end_offset
            physical_offsets = physical_offsets[bisect_left(physical_offsets, offset) :]
        start = offset - self._chunk_offset
        marks.add(offset, memoryview(self._chunk)[start : start + end - offset], len(physical_offsets))

    def _run_at(self, offset: int) -> Columns:
        """Returns the usual records at `offset`, as far as they have been read; none if it begins with another."""
        start = offset - self._chunk_offset
        if 0 <= start < len(self._chunk):
            run = peek_columns(self._chunk, start, offset)
            # What is left of the chunk is mostly the beginning of a record.
            if run or start == 0 or len(self._chunk) - start >= _TAIL_SIZE:
                return run
        self._read(offset, _CHUNK_SIZE)
        return peek_columns(self._chunk, 0, offset)

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
        if "\0" in record.topic or is_torn(record.properties, offset + record.size):
            return f"the record at {offset} has zeros where text should be"
        return record

    def _next_good(self, offset: int) -> int | None:
        """Returns where the next good record after `offset` begins, if there is one; else `_stray_end` is known."""
        at = offset + 1
        self._stray_end = at if any(self._bytes(offset, 1)) else offset
        while (at := self._skip(at)) < self._segments.end_offset:
            chunk = self._bytes(at, min(_CHUNK_SIZE, self._segments.room_after(at)))
            position = len(chunk)
            # Most of what follows the last record was never written.
            if chunk != _ZEROS[: len(chunk)]:
                self._stray_end = at + len(chunk.rstrip(b"\0"))
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

    def _bytes(self, offset: int, size: int) -> bytes:
        start = offset - self._chunk_offset
        if start < 0 or start + size > len(self._chunk):
            self._read(offset, max(size, _CHUNK_SIZE))
            start = 0
        return self._chunk[start : start + size]

    def _read(self, offset: int, size: int) -> None:
        self._chunk = self._segments.read(offset, size)
        self._chunk_offset = offset


def _first(chunk: bytes, position: int) -> int:
    """Returns where the first magic of a record stands from `position` on, or -1."""
    found = [at for magic in _MAGICS if (at := chunk.find(magic, position)) >= 0]
    return min(found, default=-1)
