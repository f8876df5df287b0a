"""The receiving end of replication: takes the bytes of another broker's log and writes whole records (HAClient)."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from kerolox.message.errors import RecordError
from kerolox.message.records.columns import Columns, peek_columns
from kerolox.message.records.record import BLANK_MAGIC, MAGIC_V1, MAGIC_V2, size_and_magic
from kerolox.message.records.summary import peek
from kerolox.store.errors import NotCopied, StoreFull
from kerolox.store.log.allocator import FileAllocator
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.flusher import Flusher
from kerolox.store.log.segments import Segments

_HEAD_SIZE = 8
# Bytes of an incomplete record, or of an incomplete blank at the end of a file, that are kept in memory.
_PENDING_SIZE_MAX = 64 * 1024 * 1024


class CopiedRecords(NamedTuple):
    """Whole records that follow each other in one file, possibly with the blank record that ends it."""

    data: bytes
    runs: list[Columns]

    @property
    def record_count(self) -> int:
        return sum(map(len, self.runs))


class LogCopy:
    """Splits copied bytes into whole records and makes room for them.

    Frames of the HA stream may end within a record. The beginning of such a record stays in memory until the rest of
    it has come, so the files hold only whole records at any time: a slave that becomes master, or that is killed, has
    nothing to truncate.
    """

    def __init__(self, commit_log: CommitLog, segments: Segments, allocator: FileAllocator, flusher: Flusher) -> None:
        self._log = commit_log
        self._segments = segments
        self._allocator = allocator
        self._flusher = flusher
        # The beginning of a record, and the bytes from which on it is worth looking again.
        self._pending = bytearray()
        self._wanted_size = 0

    @property
    def end_offset(self) -> int:
        """The physical offset at which the next copied bytes must begin."""
        return self._log.end_offset + len(self._pending)

    @property
    def is_empty(self) -> bool:
        """Whether the log holds nothing, so that the copy may begin at any file of the other log."""
        is_empty = not self._segments.starts or self._log.end_offset == self._log.first_offset
        return is_empty and not self._pending

    def reset(self) -> None:
        """Forget the beginning of an incomplete record: the copy continues at the end of the last whole one."""
        self._pending.clear()
        self._wanted_size = 0

    async def begin_at(self, offset: int) -> None:
        """Let an empty log begin at `offset`, the start of a file; NotCopied if it cannot be one here."""
        if offset % self._segments.segment_size:
            raise NotCopied(
                f"the master's log continues at {offset}, which is not the start of a file of "
                f"{self._segments.segment_size} bytes; set mappedFileSizeCommitLog as on the master"
            )
        await self._allocator.close()
        # The file that was created in advance, if any; a log with a gap between two files could not be opened.
        self._segments.cut(0)
        self._log.checksums.clear()
        self._log.load(offset)
        self._flusher.load(offset)

    def split(self, data: bytes) -> Iterator[CopiedRecords]:
        """Yield the whole records that `data` completes, in one piece per file; the caller writes each at once.

        NotCopied if the bytes are not records of this place in the log.
        """
        while data:
            room = self._segments.segment_size - self.end_offset % self._segments.segment_size
            self._pending += data[:room]
            data = data[room:]
            if len(self._pending) >= self._wanted_size:
                copied = self._take()
                if copied.data:
                    yield copied

    def _take(self) -> CopiedRecords:
        """Remove the whole records from the pending bytes, and set what the rest waits for."""
        offset, data = self._log.end_offset, bytes(self._pending)
        room = self._segments.room_after(offset)
        runs: list[Columns] = []
        at = 0
        self._wanted_size = _HEAD_SIZE
        while len(data) - at >= _HEAD_SIZE:
            size = self._record_size(data, at, room)
            if size > len(data) - at:
                self._wanted_size = size
                break
            if at + size == room and size_and_magic(data, at)[1] == BLANK_MAGIC:
                at = room
                break
            run = _run_at(data, at, offset)
            runs.append(run)
            at = run.end_offset - offset
        del self._pending[:at]
        return CopiedRecords(data[:at], runs)

    def _record_size(self, data: bytes, at: int, room: int) -> int:
        """Return the size of the record, or of the blank, that begins at `at`."""
        size, magic = size_and_magic(data, at)
        offset, left = self._log.end_offset + at, room - at
        if magic == BLANK_MAGIC and size != left:
            raise NotCopied(
                f"a file of the master's log ends at {offset + size}, one of this log at {offset + left}; "
                "set mappedFileSizeCommitLog as on the master"
            )
        if magic not in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC) or not _HEAD_SIZE <= size <= left:
            raise NotCopied(f"magic {magic:#x} and size {size} at {offset} are not those of a record")
        if size > _PENDING_SIZE_MAX:
            raise NotCopied(f"a record of {size} bytes at {offset} exceeds the limit of {_PENDING_SIZE_MAX}")
        return size

    async def make_room(self) -> None:
        """Wait until the log has a file to write to; StoreFull if the disk has no room for it."""
        while self._log.end_offset >= self._segments.end_offset:
            allocation = self._allocator.begin(is_needed=True)
            assert allocation is not None
            await asyncio.wait([allocation])
            if self._flusher.failure is not None:
                raise self._flusher.failure
            if (error := allocation.result()) is not None:
                raise StoreFull(f"the next file of the commit log cannot be created: {error}") from error
        if self._allocator.is_due:
            self._allocator.begin_early()


def _run_at(data: bytes, at: int, offset: int) -> Columns:
    """Return verified records from `at` on, at least one; `offset` is the physical offset of the data."""
    run = peek_columns(data, at, offset + at)
    if run:
        return run
    try:
        record = peek(data, at, check_crc=True)
    except RecordError as error:
        raise NotCopied(f"the record at {offset + at} is damaged: {error}") from error
    if record.physical_offset != offset + at:
        raise NotCopied(f"the record at {offset + at} declares the physical offset {record.physical_offset}")
    return Columns.of([record])
