"""Reads records of the commit log by physical offset and size."""

import functools
import struct
from collections.abc import Callable, Sequence
from itertools import compress, repeat
from operator import add, le, lt, sub

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
# Ranges that are fetched one by one, if most bytes between them are of other queues.
_SPANS_MAX = 64

Run = bytes | memoryview


class Ranges(msgspec.Struct, gc=False):
    """Ranges of the log, in its order and with gaps between them, that hold records of one queue and nothing else."""

    starts: list[int]
    ends: list[int]
    # Number of records, bytes of all, and physical offset of the last.
    count: int
    size: int
    last: int


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
        if wants is None and self._gather_ranges(found, locations):
            return
        first, count = 0, len(locations)
        missing: list[Span] = []
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

    def _gather_ranges(self, found: Gathered, locations: Sequence[tuple[int, int]]) -> bool:
        """Add records if all of them exist, in the log's order and in one file; False, and none is added, if not."""
        if not locations:
            return True
        starts, sizes = zip(*locations, strict=True)
        merged = merge_adjacent(starts, sizes)
        if merged is None:
            return False
        ranges = Ranges(*merged, len(starts), sum(sizes), starts[-1])
        runs = self.runs(ranges)
        if runs is None:
            return False
        found.runs += runs
        found.starts += starts
        found.count += ranges.count
        found.size += ranges.size
        return True

    def runs(self, ranges: Ranges) -> list[Run] | None:
        """Return a run for each range; None unless all ranges hold the expected records, in one file.

        Mapped records are not checked: this process appended them and derived the entries from them.
        """
        if self.damages:
            return None
        starts, ends = ranges.starts, ranges.ends
        first, end = starts[0], ends[-1]
        view, base, limit = self._mapped_view(first)
        is_mapped = view is not None
        if not is_mapped:
            log = self._log
            if first < log.first_offset or end > min(log.end_offset, log.next_file_start(first)):
                return None
            view, base = self._readable_view(ranges)
            # The file may be truncated.
            limit = 0 if view is None else base + len(view)
        if view is None or end > limit:
            return None
        if len(starts) == 1:
            runs: list[Run] = [view[first - base : end - base]]
        else:
            runs = [view[start - base : end - base] for start, end in zip(starts, ends, strict=True)]
        return runs if is_mapped or _hold_records(runs, ranges) else None

    def _readable_view(self, ranges: Ranges) -> tuple[memoryview | None, int]:
        """Return a view that includes the ranges, and its start; None if they are too far apart to be read together.

        Many bytes are not copied but fetched into memory, and viewed in the mapped file: NotInMemory as in
        `Segments.view_fetched`.
        """
        first, extent, size = ranges.starts[0], ranges.ends[-1] - ranges.starts[0], ranges.size
        is_dense = extent <= min(2 * size, _VIEW_MAX)
        is_single = len(ranges.starts) == ranges.count
        if size > _SPAN_MAX and is_single and max(map(sub, ranges.ends, ranges.starts)) > _SPAN_MAX:
            # The size of a large record is not believed without a look at its head.
            return None, 0
        view: memoryview | None = None
        if self._segments is not None and size > INLINE_READ_SIZE_MAX and extent < _VIEW_MAX:
            if is_dense:
                view = self._segments.view_fetched(first, extent)
            elif len(ranges.starts) <= _SPANS_MAX:
                view = self._fetched_view(self._segments, ranges)
        if view is not None and self._segments is not None:
            return view, self._segments.start_of(first)
        return (memoryview(self.read(first, extent)), first) if is_dense else (None, 0)

    def _fetched_view(self, segments: Segments, ranges: Ranges) -> memoryview | None:
        view: memoryview | None = None
        missing: list[Span] = []
        for start, end in zip(ranges.starts, ranges.ends, strict=True):
            try:
                view = segments.view_fetched(start, end - start)
            except NotInMemory as error:
                missing += error.spans
        if missing:
            raise NotInMemory(missing)
        return view

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


def merge_adjacent(starts: Sequence[int], sizes: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Return starts and ends of the ranges that hold the records; None if these are not in the log's order."""
    ends, following = list(map(add, starts, sizes)), starts[1:]
    has_gap = list(map(lt, ends, following))
    if all(has_gap):
        return list(starts), ends
    if not all(map(le, ends, following)):
        return None
    return [starts[0], *compress(following, has_gap)], [*compress(ends, has_gap), ends[-1]]


def _hold_records(runs: Sequence[Run], ranges: Ranges) -> bool:
    """Whether the runs are exactly the expected number of MAGIC_V1 records at their declared offsets."""
    starts, ends = ranges.starts, ranges.ends
    if len(runs) < ranges.count:
        return sum(map(_count_records, runs, starts)) == ranges.count
    try:
        heads = [_unpack_head(run) for run in runs]
    except struct.error:
        return False
    return heads == list(zip(map(sub, ends, starts), repeat(MAGIC_V1), starts, strict=False))


def _count_records(run: Run, start: int) -> int:
    """Return the number of records in a run, if it holds MAGIC_V1 records at their declared offsets; else 0."""
    if len(run) < _HEAD_SIZE:
        return 0
    size: int = _unpack_head(run)[0]
    if size >= _HEAD_SIZE and not len(run) % size:
        # Records of equal size, the usual case, are compared all at once.
        count = len(run) // size
        even = list(
            zip(repeat(size, count), repeat(MAGIC_V1, count), range(start, start + len(run), size), strict=True)
        )
        if list(_heads_of_size(size).iter_unpack(run)) == even:
            return count
    at = count = 0
    while at < len(run):
        if at + _HEAD_SIZE > len(run):
            return 0
        size, magic, declared_offset = _unpack_head(run, at)
        if magic != MAGIC_V1 or declared_offset != start + at or size < _HEAD_SIZE:
            return 0
        at += size
        count += 1
    return count if at == len(run) else 0


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
