"""Scans a commit log record by record and verifies each one."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerolox.message.errors import RecordError
from kerolox.message.records.columns import Columns, peek_columns
from kerolox.message.records.record import BLANK_MAGIC, BLANK_SIZE_MIN, MAGIC_V1, MAGIC_V2, size_and_magic
from kerolox.message.records.summary import RecordSummary, is_torn, peek
from kerolox.store.log.segments import Segments
from kerolox.store.recovery.log_checksums import FileChecksums

_CHUNK_SIZE = 2 * 1024 * 1024
# A rest of a chunk smaller than this, mostly an incomplete record, is read again together with what follows it.
_TAIL_SIZE = 64 * 1024
_HEAD_SIZE = 8
_ZEROS = bytes(_CHUNK_SIZE)
_MAGICS = (MAGIC_V1.to_bytes(4), MAGIC_V2.to_bytes(4))


class Damage(NamedTuple):
    """A range of the log without valid records."""

    offset: int
    end_offset: int
    reason: str


class Scan:
    """Iterates over the records; after a damaged one it searches for the next valid one.

    A record is valid only if its size fits, its CRC matches and it declares the physical offset at which it was found.
    """

    def __init__(self, segments: Segments, marks: FileChecksums | None = None) -> None:
        self._segments = segments
        # Collects checksums of the valid ranges.
        self._marks = marks
        self._chunk = b""
        self._chunk_offset = 0
        # File start → offset after which the file was never written.
        self._data_ends: dict[int, int] = {}
        # End of the last valid record, or of the blank after it.
        self.end_offset = 0
        # Damaged ranges between valid records; never served and never truncated.
        self.damages: list[Damage] = []
        # The range after the last valid record, if it has anything but zeros.
        self.torn: Damage | None = None
        # End of the last byte that is not zero.
        self._nonzero_end = 0

    def records(self, offset: int) -> Iterator[tuple[RecordSummary, int]]:
        """Yield each record from `offset` on, with its physical offset."""
        for run in self.runs(offset):
            for record in run:
                yield record, record.physical_offset

    def runs(self, offset: int) -> Iterator[list[RecordSummary]]:
        """Yield the records from `offset` on in lists of adjacent ones."""
        return (run.summaries() for run in self.columns(offset))

    def columns(self, offset: int) -> Iterator[Columns]:
        """Yield the records from `offset` on as columns of adjacent ones."""
        self.end_offset = offset
        starts = [start for start in self._segments.starts if start >= self._segments.start_of(offset)]
        self._data_ends = {start: self._segments.data_end(start) for start in starts}
        while offset < self._segments.end_offset:
            run = self._run_at(offset)
            found = None if run else self.record_at(offset)
            if isinstance(found, RecordSummary):
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
                    if self._nonzero_end > offset:
                        self.torn = Damage(offset, self._nonzero_end, found)
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
        """Return the records of the chunk from `offset` on; none if the first one needs `record_at`."""
        start = offset - self._chunk_offset
        if 0 <= start < len(self._chunk):
            run = peek_columns(self._chunk, start, offset)
            # A short rest of the chunk is mostly the beginning of a record.
            if run or start == 0 or len(self._chunk) - start >= _TAIL_SIZE:
                return run
        self._read(offset, _CHUNK_SIZE)
        return peek_columns(self._chunk, 0, offset)

    def record_at(self, offset: int) -> RecordSummary | str | None:
        """Return the record at `offset`, None for a blank record, or a text that says what is wrong."""
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
            return f"a record with physical offset {record.physical_offset}"
        if "\0" in record.topic or is_torn(record.properties, offset + record.size):
            return f"the record at {offset} has zeros where text should be"
        return record

    def _next_good(self, offset: int) -> int | None:
        """Return the start of the next valid record after `offset`; None, with `_nonzero_end` set, if there is none."""
        at = offset + 1
        self._nonzero_end = at if any(self._bytes(offset, 1)) else offset
        while (at := self._skip(at)) < self._segments.end_offset:
            chunk = self._bytes(at, min(_CHUNK_SIZE, self._segments.room_after(at)))
            position = len(chunk)
            # Skip zeros fast: most of the file after the last record was never written.
            if chunk != _ZEROS[: len(chunk)]:
                self._nonzero_end = at + len(chunk.rstrip(b"\0"))
                position = 0
            while (position := _find_magic(chunk, position)) >= 0:
                candidate = at + position - 4
                if candidate > offset and isinstance(self.record_at(candidate), RecordSummary):
                    return candidate
                position += 1
            # A magic may span two chunks, but not two files.
            step = len(chunk) - 3 if len(chunk) < self._segments.room_after(at) else len(chunk)
            at += max(step, 1)
        return None

    def _skip(self, at: int) -> int:
        """Return the first offset from `at` on that may hold data; the rest of a preallocated file has only zeros."""
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


def _find_magic(chunk: bytes, position: int) -> int:
    """Return the index of the first record magic from `position` on, or -1."""
    found = [at for magic in _MAGICS if (at := chunk.find(magic, position)) >= 0]
    return min(found, default=-1)
