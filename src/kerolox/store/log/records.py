"""Reads records of the commit log by physical offset and size."""

import functools
import struct
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import NamedTuple

import msgspec

from kerolox.message.records.layout import HOSTS_AT, IDENTITY, STORE_TIMESTAMP_AT
from kerolox.message.records.record import MAGIC_V1, MAGIC_V2, PROPERTIES_SIZE_MAX
from kerolox.store.errors import StoreError
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.scan import Damage
from kerolox.store.log.segments import INLINE_READ_SIZE_MAX, NotInMemory, Segments, Span

_HEAD_SIZE = IDENTITY.size
_unpack_head = IDENTITY.unpack_from
_MAGICS = frozenset((MAGIC_V1, MAGIC_V2))
# The store timestamp follows the born host: its position for IPv4 and for IPv6, and the bytes to read for either.
_TIMESTAMP = struct.Struct(">q")
_TIMESTAMP_HEAD_SIZE = STORE_TIMESTAMP_AT[1] + _TIMESTAMP.size
# Records with at most this gap between them are read together, because a second read costs more than the gap.
_GAP_MAX = 4096
# Largest range read together; a single record larger than this is believed only after a look at its head.
_SPAN_MAX = 1024 * 1024
# No frame carries a larger body, unless the configuration allows it.
_BODY_SIZE_MAX = 16 * 1024 * 1024
# Upper bound for the rest of a record: head, topic and properties.
_REST_SIZE_MAX = PROPERTIES_SIZE_MAX + 1024
# Largest range of the log that a bulk read has fetched into memory, if it includes records of other queues.
_VIEW_MAX = 64 * 1024 * 1024

Run = bytes | memoryview


class ContiguousRange(NamedTuple):
    """A range of the log that holds `records` records of one queue and nothing else."""

    start: int
    end: int
    records: int


class Gathered(msgspec.Struct):
    """Records that were read; adjacent ones share a run."""

    runs: list[Run] = []
    count: int = 0
    size: int = 0
    # Physical offset of each record.
    starts: list[int] = []
    # Physical offset of the last record that is not in the log, and of the last that the filter rejected; -1 for none.
    missing_offset: int = -1
    rejected_offset: int = -1
    # Physical offsets of all records that are not in the log.
    missing: list[int] = []


class Records:
    """Reads records without awaiting. StoreError if the disk fails, NotInMemory as in `Segments.read`.

    `segments` are the log's files, if bulk reads may be served from views of them without a copy.
    """

    def __init__(self, commit_log: CommitLog, segments: Segments | None = None, *, body_size_max: int = 0) -> None:
        self._log = commit_log
        self._segments = segments
        # A body can contain bytes that look like the head of a record, with any size; a size that no client could have
        # sent is rejected.
        self._lookup_size_max = max(body_size_max, _BODY_SIZE_MAX) + _REST_SIZE_MAX
        # Ranges of the log without valid records; they are never served.
        self.damages: list[Damage] = []
        # Length of the log's tail that is assumed to be in the page cache, if this process wrote it, and is served from
        # the mapped file. Older records must be read: touching a mapped page that the disk cannot deliver ends the
        # process with SIGBUS.
        self.mapped_size = 2**62

    @property
    def first_offset(self) -> int:
        return self._log.first_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def size_max(self) -> int:
        """Upper bound for the size of a record."""
        return self._log.append_size_max

    def at(self, physical_offset: int, size: int) -> bytes | None:
        """Return the bytes of a record; None if it is damaged or not in the log."""
        if size > _SPAN_MAX and self._declared_size(physical_offset) != size:
            return None
        record = self.read(physical_offset, size)
        return record if self._is_record(record, 0, physical_offset, size) else None

    def size_at(self, physical_offset: int) -> int:
        """Return the size declared by the record at an offset; 0 if there is no record.

        The offset may come from an untrusted client: only the head is read, and impossible sizes are rejected.
        """
        size = self._declared_size(physical_offset)
        return size if size <= self._lookup_size_max else 0

    def _declared_size(self, physical_offset: int) -> int:
        head = self.read(physical_offset, _HEAD_SIZE)
        if len(head) < _HEAD_SIZE:
            return 0
        size, magic, declared_offset = _unpack_head(head)
        is_record = magic in _MAGICS and declared_offset == physical_offset and _HEAD_SIZE <= size <= self.size_max
        return int(size) if is_record else 0

    def store_time(self, physical_offset: int) -> int | None:
        """Return the store timestamp of the record at an offset; None if there is no record."""
        head = self.read(physical_offset, _TIMESTAMP_HEAD_SIZE)
        if len(head) < _TIMESTAMP_HEAD_SIZE:
            return None
        size, magic, declared_offset = _unpack_head(head)
        if magic not in _MAGICS or declared_offset != physical_offset or self.is_damaged(physical_offset, size):
            return None
        timestamp: int = _TIMESTAMP.unpack_from(head, STORE_TIMESTAMP_AT[head[HOSTS_AT] >> 4 & 1])[0]
        return timestamp

    def gather(
        self, found: Gathered, locations: Sequence[tuple[int, int]], wants: Callable[[bytes], bool] | None = None
    ) -> None:
        """Add to `found` the records at `locations`, pairs of physical offset and size, with as few reads as possible.

        Records that are not in the log or that `wants` rejects are left out and noted in `found`.
        """
        first, count = 0, len(locations)
        missing: list[Span] = []
        if wants is None and not self.damages:
            first = self._gather_mapped(found, locations)
        while first < count:
            start, size = locations[first]
            end = start + size
            last = first + 1
            if last < count and 0 <= locations[last][0] - end <= _GAP_MAX:
                end, last = self._span(locations, first)
            try:
                is_doubtful = end - start > _SPAN_MAX and self._declared_size(start) != end - start
                data = b"" if is_doubtful else self.read(start, end - start)
            except NotInMemory as error:
                # Collect all missing spans, so that one trip to the disk fetches them.
                missing += error.spans
            else:
                self._slice(found, data, start, locations[first:last], wants)
            first = last
        if missing:
            raise NotInMemory(missing)

    def run(self, start: int, end: int) -> Run | None:
        """Return a view of the log between two offsets; None if it may not be in memory or spans two files."""
        log = self._log
        if self.damages or start < log.appended_from or start < log.end_offset - self.mapped_size:
            return None
        try:
            view, base, limit = log.view(start)
        except OSError as error:
            raise _unreadable(start, error) from error
        return None if view is None or end > limit else view[start - base : end - base]

    def gather_entries(self, starts: Sequence[int], sizes: Sequence[int]) -> list[Run] | None:
        """Return the records of queue entries in few runs; None unless all are in the log, and in one file."""
        first, last, last_size = starts[0], starts[-1], sizes[-1]
        log = self._log
        # Fillers, whose offset is 0, break the order.
        are_in_order = max(starts) == last and min(starts) == first
        if self.damages or first < log.first_offset or not are_in_order:
            return None
        size = sum(sizes)
        # Mapped records need no check: this process appended them and derived the entries from them.
        view, base, limit = self._mapped_view(first)
        if view is None:
            view, base, limit = self._checked_view(starts, sizes, size)
        if view is None or last + last_size > limit:
            return None
        at = first - base
        if last + last_size - first == size:
            # All records are adjacent.
            return [view[at : at + size]]
        return [view[start - base : start - base + size] for start, size in zip(starts, sizes, strict=True)]

    def gather_ranges(self, ranges: Sequence[ContiguousRange]) -> list[Run] | None:
        """Return one run per range; the ranges are in log order. None if one may not hold the expected records."""
        first, end = ranges[0].start, ranges[-1].end
        if self.damages or first < self._log.first_offset:
            return None
        # Mapped records need no check: this process appended them and derived the entries from them.
        runs = [run for expected in ranges if (run := self.run(expected.start, expected.end)) is not None]
        if len(runs) == len(ranges):
            return runs
        if end > min(self.end_offset, self._log.next_file_start(first)):
            return None
        view, base = self._fetched_view(ranges)
        if view is None:
            size = sum(end - start for start, end, _ in ranges)
            if end - first > min(2 * size, _VIEW_MAX):
                return None
            view, base = memoryview(self.read(first, end - first)), first
        runs = [view[start - base : end - base] for start, end, _ in ranges]
        return runs if all(map(_holds_records, runs, ranges)) else None

    def _fetched_view(self, ranges: Sequence[ContiguousRange]) -> tuple[memoryview | None, int]:
        """Return a view of the ranges' file and its start, if they were fetched; None if they should be read.

        NotInMemory if they have to be fetched first.
        """
        first, end = ranges[0].start, ranges[-1].end
        if self._segments is None or end - first >= _VIEW_MAX:
            return None, 0
        if sum(end - start for start, end, _ in ranges) <= INLINE_READ_SIZE_MAX:
            return None, 0
        view: memoryview | None = None
        missing: list[Span] = []
        for start, end, _ in ranges:
            try:
                view = self._segments.view_fetched(start, end - start)
            except NotInMemory as error:
                missing += error.spans
        if missing:
            raise NotInMemory(missing)
        return view, self._segments.start_of(first)

    def _checked_view(
        self, starts: Sequence[int], sizes: Sequence[int], size: int
    ) -> tuple[memoryview | None, int, int]:
        """Return a view like `_mapped_view` of records that may be on disk; None if they differ from the entries."""
        first, end = starts[0], starts[-1] + sizes[-1]
        if max(sizes) > _SPAN_MAX or end > min(self.end_offset, self._log.next_file_start(first)):
            return None, 0, 0
        base, view = first, None
        if size > INLINE_READ_SIZE_MAX and end - first < _VIEW_MAX and self._segments is not None:
            view, base = self._segments.view_fetched(first, end - first), self._segments.start_of(first)
        if view is None:
            if end - first > 2 * size:
                return None, 0, 0
            view, base = memoryview(self.read(first, end - first)), first
        return (view, base, end) if _are_records(view, base, starts, sizes) else (None, 0, 0)

    def _gather_mapped(self, found: Gathered, locations: Sequence[tuple[int, int]]) -> int:
        """Add records as views of mapped files, up to the first unusual or unmapped one; return how many."""
        runs, total = found.runs, 0
        view: memoryview | None = None
        base = limit = run_start = run_end = count = 0
        for start, size in locations:
            end = start + size
            if not base <= start < limit:
                if view is not None and run_end > run_start:
                    runs.append(view[run_start - base : run_end - base])
                view, base, limit = self._mapped_view(start)
                run_start = run_end = start
            if view is None or end > limit or size < _HEAD_SIZE:
                break
            if _unpack_head(view, start - base) != (size, MAGIC_V1, start):
                break
            if start != run_end:
                if run_end > run_start:
                    runs.append(view[run_start - base : run_end - base])
                run_start = start
            run_end = end
            count += 1
            total += size
        if view is not None and run_end > run_start:
            runs.append(view[run_start - base : run_end - base])
        found.starts += [start for start, _ in locations[:count]]
        found.count += count
        found.size += total
        return count

    def _mapped_view(self, physical_offset: int) -> tuple[memoryview | None, int, int]:
        """Return a view of the file, its start and the end of the log in it; None if it may not be in memory."""
        log = self._log
        if physical_offset < log.appended_from or physical_offset < log.end_offset - self.mapped_size:
            return None, 0, 0
        try:
            return log.view(physical_offset)
        except OSError as error:
            raise _unreadable(physical_offset, error) from error

    def _span(self, locations: Sequence[tuple[int, int]], first: int) -> tuple[int, int]:
        """Return the end of the range worth reading together from `first` on, and the index after its last record."""
        start, size = locations[first]
        end, limit = start + size, min(self._log.next_file_start(start), start + _SPAN_MAX)
        for last in range(first + 1, len(locations)):
            offset, size = locations[last]
            if not 0 <= offset - end <= _GAP_MAX or offset + size > limit:
                return end, last
            end = offset + size
        return end, len(locations)

    def _slice(
        self,
        found: Gathered,
        data: bytes,
        start: int,
        locations: Sequence[tuple[int, int]],
        wants: Callable[[bytes], bool] | None,
    ) -> None:
        """Add to `found` the records in `data`, which was read at `start`, as slices of it."""
        run_at = run_end = 0
        has_damages, end = bool(self.damages), len(data)
        for offset, size in locations:
            at = offset - start
            is_whole = _HEAD_SIZE <= size <= end - at
            is_usual = is_whole and _unpack_head(data, at) == (size, MAGIC_V1, offset)
            if (has_damages or not is_usual) and not self._is_record(data, at, offset, size):
                found.missing_offset = offset
                found.missing.append(offset)
                continue
            if wants is not None and not wants(data[at : at + size]):
                found.rejected_offset = offset
                continue
            if at != run_end:
                if run_end > run_at:
                    found.runs.append(memoryview(data)[run_at:run_end])
                run_at = at
            run_end = at + size
            found.starts.append(offset)
            found.count += 1
            found.size += size
        if run_end > run_at:
            found.runs.append(data if run_end - run_at == len(data) else memoryview(data)[run_at:run_end])

    def _is_record(self, data: bytes, at: int, physical_offset: int, size: int) -> bool:
        """Whether `data` holds at `at` a complete record that declares this size and physical offset."""
        if size < _HEAD_SIZE or at + size > len(data):
            return False
        declared_size, magic, declared_offset = _unpack_head(data, at)
        if declared_size != size or declared_offset != physical_offset or magic not in _MAGICS:
            return False
        return not (self.damages and self.is_damaged(physical_offset, size))

    def is_damaged(self, start: int, size: int = 1) -> bool:
        """Whether a range of the log overlaps a known damaged range."""
        return any(damage.offset < start + size and start < damage.end_offset for damage in self.damages)

    def read(self, physical_offset: int, size: int) -> bytes:
        """Return at most `size` bytes of the log; none at an offset that is not in the log."""
        view, base, limit = self._mapped_view(physical_offset)
        if view is not None and physical_offset < limit:
            return bytes(view[physical_offset - base : min(physical_offset + size, limit) - base])
        try:
            return self._log.read(physical_offset, size)
        except OSError as error:
            raise _unreadable(physical_offset, error) from error


def _unreadable(physical_offset: int, error: OSError) -> StoreError:
    return StoreError(f"the commit log could not be read at {physical_offset}: {error}")


def _are_records(view: memoryview, base: int, starts: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the view, which begins at `base`, has MAGIC_V1 records of exactly these offsets and sizes."""
    try:
        heads = [_unpack_head(view, start - base) for start in starts]
    except struct.error:
        return False
    return heads == [(size, MAGIC_V1, start) for start, size in zip(starts, sizes, strict=True)]


def _holds_records(run: Run, expected: ContiguousRange) -> bool:
    """Whether the bytes of a range are exactly the expected number of MAGIC_V1 records at their declared offsets."""
    start, end, count = expected
    if len(run) < end - start:
        # The file is truncated.
        return False
    size, rest = divmod(end - start, count)
    if not rest and size >= _HEAD_SIZE:
        # Records of equal size, the usual case, are compared all at once.
        even = list(zip(repeat(size, count), repeat(MAGIC_V1, count), range(start, end, size), strict=True))
        if list(_heads_of_size(size).iter_unpack(run)) == even:
            return True
    at = 0
    for _ in range(count):
        if at + _HEAD_SIZE > len(run):
            return False
        size, magic, declared_offset = _unpack_head(run, at)
        if magic != MAGIC_V1 or declared_offset != start + at or size < _HEAD_SIZE:
            return False
        at += size
    return at == len(run)


@functools.lru_cache(maxsize=256)
def _heads_of_size(size: int) -> struct.Struct:
    return struct.Struct(f"{IDENTITY.format}{size - _HEAD_SIZE}x")


def split_records(run: Run) -> list[bytes]:
    """Split a run into its records."""
    records, at = [], 0
    while at < len(run):
        size = int.from_bytes(run[at : at + 4])
        records.append(bytes(run[at : at + size]))
        at += size
    return records
