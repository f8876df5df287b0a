"""The records of the commit log, by where they lie."""

import functools
import struct
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import NamedTuple

import msgspec

from kerolox.message.record import HOSTS_AT, MAGIC_V1, MAGIC_V2, PROPERTIES_SIZE_MAX
from kerolox.store.errors import StoreError
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.scan import Damage
from kerolox.store.log.segments import AT_ONCE_SIZE_MAX, NotInMemory, Segments, Span

# Size, magic and physical offset of a record.
_HEAD = struct.Struct(">II20xq")
_HEAD_SIZE = _HEAD.size
_unpack_head = _HEAD.unpack_from
_MAGICS = frozenset((MAGIC_V1, MAGIC_V2))
# The store time follows the host of the producer, which is longer with IPv6.
_TIME = struct.Struct(">q")
_TIME_AT = (56, 68)
_TIMED_HEAD_SIZE = 76
# Records so far from each other are still read at once, since a read costs more than such a gap.
_GAP_MAX = 4096
_SPAN_MAX = 1024 * 1024
# Larger bodies come in no frame, unless the configuration says so.
_BODY_SIZE_MAX = 16 * 1024 * 1024
# Of what a record has beside its body: head, topic and properties.
_REST_SIZE_MAX = PROPERTIES_SIZE_MAX + 1024
# So much is brought to memory for those who read in bulk, if other records lie between theirs.
_VIEW_MAX = 64 * 1024 * 1024

Run = bytes | memoryview


class Stretch(NamedTuple):
    """Records that lie side by side: where they begin and end, and how many there are."""

    start: int
    end: int
    records: int


class Gathered(msgspec.Struct):
    """Records as they lie in the log, those side by side in one piece."""

    runs: list[Run] = []
    count: int = 0
    size: int = 0
    # Where the last lay that was not there, and the last that was not wanted.
    missing_offset: int = -1
    refused_offset: int = -1


class Records:
    """Plain functions; StoreError where the disk does not give what it should."""

    def __init__(self, commit_log: CommitLog, segments: Segments | None = None, *, body_size_max: int = 0) -> None:
        self._log = commit_log
        # The files of the log, if what is old and much may be served from them without a copy.
        self._segments = segments
        # What a body may contain looks like the head of any record; one that nobody could send is none.
        self._looked_up_size_max = max(body_size_max, _BODY_SIZE_MAX) + _REST_SIZE_MAX
        # Ranges of the log that hold no record; nothing of them is served.
        self.damages: list[Damage] = []
        # So much of the log's end is surely in memory, if this process wrote it, and is served without a copy. What is
        # not must be read, for a page that the disk does not give ends the process that only looks at it.
        self.mapped_size = 2**62

    @property
    def first_offset(self) -> int:
        return self._log.first_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def size_max(self) -> int:
        """No record is larger."""
        return self._log.draft_size_max

    def at(self, physical_offset: int, size: int) -> bytes | None:
        """Returns the bytes of a record, or None if the log no longer has it, or never had, or it is damaged."""
        if size > _SPAN_MAX and self._said_size(physical_offset) != size:
            return None
        record = self.read(physical_offset, size)
        return record if self._is_record(record, 0, physical_offset, size) else None

    def size_at(self, physical_offset: int) -> int:
        """Returns the size that the record at an offset says it has; 0 if there is none.

        The offset may be any that a stranger has thought of: little is read, and no size is believed that none has.
        """
        size = self._said_size(physical_offset)
        return size if size <= self._looked_up_size_max else 0

    def _said_size(self, physical_offset: int) -> int:
        head = self.read(physical_offset, _HEAD_SIZE)
        if len(head) < _HEAD_SIZE:
            return 0
        size, magic, said_offset = _unpack_head(head)
        is_record = magic in _MAGICS and said_offset == physical_offset and _HEAD_SIZE <= size <= self.size_max
        return int(size) if is_record else 0

    def store_time(self, physical_offset: int) -> int | None:
        """Returns when the record at an offset was stored, or None if there is none."""
        head = self.read(physical_offset, _TIMED_HEAD_SIZE)
        if len(head) < _TIMED_HEAD_SIZE:
            return None
        size, magic, said_offset = _unpack_head(head)
        if magic not in _MAGICS or said_offset != physical_offset or self._is_damaged(physical_offset, size):
            return None
        time: int = _TIME.unpack_from(head, _TIME_AT[head[HOSTS_AT] >> 4 & 1])[0]
        return time

    def gather(
        self, found: Gathered, places: Sequence[tuple[int, int]], wants: Callable[[bytes], bool] | None = None
    ) -> None:
        """Adds to `found` the records at these offsets, of these sizes; with as few reads as it takes.

        What is not there is left out, and so is what is not wanted.
        """
        first, count = 0, len(places)
        missing: list[Span] = []
        if wants is None and not self.damages:
            first = self._gather_plain(found, places)
        while first < count:
            start, size = places[first]
            end = start + size
            last = first + 1
            if last < count and 0 <= places[last][0] - end <= _GAP_MAX:
                end, last = self._span(places, first)
            try:
                is_doubtful = end - start > _SPAN_MAX and self._said_size(start) != end - start
                data = b"" if is_doubtful else self.read(start, end - start)
            except NotInMemory as error:
                # All that is missing is brought at once.
                missing += error.spans
            else:
                self._cut(found, data, start, places[first:last], wants)
            first = last
        if missing:
            raise NotInMemory(missing)

    def run(self, start: int, end: int) -> Run | None:
        """Returns what lies between two offsets without a copy; None if it may not be in memory, and in one file."""
        log = self._log
        if self.damages or start < log.appended_from or start < log.end_offset - self.mapped_size:
            return None
        try:
            view, base, limit = log.view(start)
        except OSError as error:
            raise _unreadable(start, error) from error
        return None if view is None or end > limit else view[start - base : end - base]

    def gather_all(self, starts: Sequence[int], sizes: Sequence[int]) -> list[Run] | None:
        """Returns the records of queue entries in few pieces; None if not all are there, and in one file."""
        first, last, last_size = starts[0], starts[-1], sizes[-1]
        log = self._log
        # Else there are fillers among them.
        are_in_order = max(starts) == last and min(starts) == first
        if self.damages or first < log.first_offset or not are_in_order:
            return None
        size = sum(sizes)
        # What is mapped was appended by this process, which has made the entries from the same records.
        view, base, limit = self._view(first)
        if view is None:
            view, base, limit = self._old_view(starts, sizes, size)
        if view is None or last + last_size > limit:
            return None
        at = first - base
        if last + last_size - first == size:
            # They lie side by side.
            return [view[at : at + size]]
        return [view[start - base : start - base + size] for start, size in zip(starts, sizes, strict=True)]

    def gather_stretches(self, stretches: Sequence[Stretch]) -> list[Run] | None:
        """Returns these parts of the log, which are in its order; None if some may not hold the records they should."""
        first, end = stretches[0].start, stretches[-1].end
        if self.damages or first < self._log.first_offset:
            return None
        # What is mapped was appended by this process, which has made the entries from the same records.
        runs = [run for stretch in stretches if (run := self.run(stretch.start, stretch.end)) is not None]
        if len(runs) == len(stretches):
            return runs
        if end > min(self.end_offset, self._log.next_file(first)):
            return None
        view, base = self._brought(stretches)
        if view is None:
            size = sum(stretch.end - stretch.start for stretch in stretches)
            if end - first > min(2 * size, _VIEW_MAX):
                return None
            view, base = memoryview(self.read(first, end - first)), first
        runs = [view[start - base : end - base] for start, end, _ in stretches]
        return runs if all(map(_are_side_by_side, runs, stretches)) else None

    def _brought(self, stretches: Sequence[Stretch]) -> tuple[memoryview | None, int]:
        """Returns the file in which they lie, if they were brought to memory; None if they are to be read."""
        first, end = stretches[0].start, stretches[-1].end
        if self._segments is None or end - first >= _VIEW_MAX:
            return None, 0
        if sum(end - start for start, end, _ in stretches) <= AT_ONCE_SIZE_MAX:
            return None, 0
        view: memoryview | None = None
        missing: list[Span] = []
        for start, end, _ in stretches:
            try:
                view = self._segments.view_at_once(start, end - start)
            except NotInMemory as error:
                missing += error.spans
        if missing:
            raise NotInMemory(missing)
        return view, self._segments.start_of(first)

    def _old_view(self, starts: Sequence[int], sizes: Sequence[int], size: int) -> tuple[memoryview | None, int, int]:
        """Returns the same as `_view` for older records, which are compared with their entries; None if they differ."""
        first, end = starts[0], starts[-1] + sizes[-1]
        if max(sizes) > _SPAN_MAX or end > min(self.end_offset, self._log.next_file(first)):
            return None, 0, 0
        base, view = first, None
        if size > AT_ONCE_SIZE_MAX and end - first < _VIEW_MAX and self._segments is not None:
            view, base = self._segments.view_at_once(first, end - first), self._segments.start_of(first)
        if view is None:
            if end - first > 2 * size:
                return None, 0, 0
            view, base = memoryview(self.read(first, end - first)), first
        return (view, base, end) if _are_records(view, base, starts, sizes) else (None, 0, 0)

    def _gather_plain(self, found: Gathered, places: Sequence[tuple[int, int]]) -> int:
        """Adds records without a copy of them, up to an unusual one or a file that cannot be seen; returns how many."""
        runs, total = found.runs, 0
        view: memoryview | None = None
        base = limit = run_start = run_end = count = 0
        for start, size in places:
            end = start + size
            if not base <= start < limit:
                if view is not None and run_end > run_start:
                    runs.append(view[run_start - base : run_end - base])
                view, base, limit = self._view(start)
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
        found.count += count
        found.size += total
        return count

    def _view(self, physical_offset: int) -> tuple[memoryview | None, int, int]:
        log = self._log
        if physical_offset < log.appended_from or physical_offset < log.end_offset - self.mapped_size:
            return None, 0, 0
        try:
            return log.view(physical_offset)
        except OSError as error:
            raise _unreadable(physical_offset, error) from error

    def _span(self, places: Sequence[tuple[int, int]], first: int) -> tuple[int, int]:
        """Returns up to where, and up to which place, it is worth reading at once from the first on."""
        start, size = places[first]
        end, limit = start + size, min(self._log.next_file(start), start + _SPAN_MAX)
        for last in range(first + 1, len(places)):
            offset, size = places[last]
            if not 0 <= offset - end <= _GAP_MAX or offset + size > limit:
                return end, last
            end = offset + size
        return end, len(places)

    def _cut(
        self,
        found: Gathered,
        data: bytes,
        start: int,
        places: Sequence[tuple[int, int]],
        wants: Callable[[bytes], bool] | None,
    ) -> None:
        """Adds the records of a span, as slices of it."""
        run_at = run_end = 0
        has_damages, end = bool(self.damages), len(data)
        for offset, size in places:
            at = offset - start
            is_whole = _HEAD_SIZE <= size <= end - at
            is_usual = is_whole and _unpack_head(data, at) == (size, MAGIC_V1, offset)
            if (has_damages or not is_usual) and not self._is_record(data, at, offset, size):
                found.missing_offset = offset
                continue
            if wants is not None and not wants(data[at : at + size]):
                found.refused_offset = offset
                continue
            if at != run_end:
                if run_end > run_at:
                    found.runs.append(memoryview(data)[run_at:run_end])
                run_at = at
            run_end = at + size
            found.count += 1
            found.size += size
        if run_end > run_at:
            found.runs.append(data if run_end - run_at == len(data) else memoryview(data)[run_at:run_end])

    def _is_record(self, data: bytes, at: int, physical_offset: int, size: int) -> bool:
        """Whether a whole record stands at `at` that says itself that it lies where it does."""
        if size < _HEAD_SIZE or at + size > len(data):
            return False
        said_size, magic, said_offset = _unpack_head(data, at)
        if said_size != size or said_offset != physical_offset or magic not in _MAGICS:
            return False
        return not (self.damages and self._is_damaged(physical_offset, size))

    def _is_damaged(self, start: int, size: int) -> bool:
        return any(damage.offset < start + size and start < damage.end_offset for damage in self.damages)

    def read(self, physical_offset: int, size: int) -> bytes:
        """Returns at most `size` bytes of the log, and none of what it no longer has."""
        try:
            return self._log.read(physical_offset, size)
        except OSError as error:
            raise _unreadable(physical_offset, error) from error


def _unreadable(physical_offset: int, error: OSError) -> StoreError:
    return StoreError(f"the commit log could not be read at {physical_offset}: {error}")


def _are_records(view: memoryview, base: int, starts: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether usual records of these sizes stand in a file that begins at `base`, and say that they lie there."""
    try:
        heads = [_unpack_head(view, start - base) for start in starts]
    except struct.error:
        return False
    return heads == [(size, MAGIC_V1, start) for start, size in zip(starts, sizes, strict=True)]


def _are_side_by_side(run: Run, stretch: Stretch) -> bool:
    """Whether a stretch of the log holds as many usual records as it should, each of which says that it lies there."""
    start, end, count = stretch
    if len(run) < end - start:
        # The file ends too soon.
        return False
    size, rest = divmod(end - start, count)
    if not rest and size >= _HEAD_SIZE:
        # Most often they are of one size.
        even = list(zip(repeat(size, count), repeat(MAGIC_V1, count), range(start, end, size), strict=True))
        if list(_heads_of_size(size).iter_unpack(run)) == even:
            return True
    at = 0
    for _ in range(count):
        if at + _HEAD_SIZE > len(run):
            return False
        size, magic, said_offset = _unpack_head(run, at)
        if magic != MAGIC_V1 or said_offset != start + at or size < _HEAD_SIZE:
            return False
        at += size
    return at == len(run)


@functools.lru_cache(maxsize=256)
def _heads_of_size(size: int) -> struct.Struct:
    return struct.Struct(f"{_HEAD.format}{size - _HEAD_SIZE}x")


def cut_records(run: Run) -> list[bytes]:
    """Returns the records of a run, each by itself."""
    records, at = [], 0
    while at < len(run):
        size = int.from_bytes(run[at : at + 4])
        records.append(bytes(run[at : at + size]))
        at += size
    return records
