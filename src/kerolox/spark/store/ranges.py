"""Plans the ranges of a commit log to read; each starts at a record."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kerolox.errors import ConfigurationError
from kerolox.message.records.layout import HOSTS_AT, IDENTITY, RECORD_SIZE_MIN, STORE_TIMESTAMP_AT
from kerolox.message.records.record import MAGIC_V1, MAGIC_V2
from kerolox.runtime.files import Disk
from kerolox.spark.arrow.record_heads import HEADS, Longs, byte_windows, low_flags, walk
from kerolox.store.check.read_only_disk import ReadOnlyDisk
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.scan import Scan
from kerolox.store.log.segments import NAME_DIGITS, OpenFiles, Segments
from kerolox.store.queue.consume_queue import ENTRY, ENTRY_SIZE
from kerolox.store.recovery.checkpoint import Checkpoint

# One range per core, unless that is too small to be worth a task, or too large to be cheap to retry.
_RANGE_SIZE_MIN: Final = 32 * 1024 * 1024
_RANGE_SIZE_MAX: Final = 512 * 1024 * 1024
# The size of Spark's own file splits. Ranges outside of the period are skipped, so smaller ranges pay.
_RANGE_SIZE_MAX_WITH_PERIOD: Final = 128 * 1024 * 1024

_LONG = struct.Struct(">q")
_TIMED_HEAD_SIZE: Final = STORE_TIMESTAMP_AT[1] + _LONG.size
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_OPEN_FILES_MAX: Final = 16
# Number of bytes scanned per step.
_CHUNK_SIZE: Final = 4 * 1024 * 1024
_ROWS_MAX: Final = 65_536
_ZEROS_SIZE: Final = 512 * 1024
# The fullest queues have a record in almost every range, so few of them need to be searched.
_QUEUES_SEARCHED_MAX: Final = 16
# If the clock was set back a little, store times are not in log order.
_CLOCK_MARGIN_MILLIS: Final = 60_000


class LogRange(NamedTuple):
    """Physical offsets within one file: from the start of a record to the start of another, or to the end."""

    start: int
    end: int


@dataclass(frozen=True)
class Period:
    """Store times, from `start_millis` to before `end_millis`."""

    start_millis: int = 0
    end_millis: int = 2**63 - 1

    def may_overlap(self, first_millis: int, last_millis: int) -> bool:
        return (
            last_millis >= self.start_millis - _CLOCK_MARGIN_MILLIS
            and first_millis < self.end_millis + _CLOCK_MARGIN_MILLIS
        )


class StoreFiles:
    """The files of a store, or only of its commit log; read-only."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        self.disk = ReadOnlyDisk(disk)
        self._files = OpenFiles(self.disk, _OPEN_FILES_MAX)
        is_root = bool(self.disk.names(path / "commitlog"))
        self.root: Path | None = path if is_root else None
        directory = path / "commitlog" if is_root else path
        names = [name for name in self.disk.names(directory) if _is_segment(name)]
        if not names:
            raise ConfigurationError(
                f"path {str(path)!r} holds no commit log: expected a store directory with commitlog/ in it, "
                f"or a directory of files such as {'0' * NAME_DIGITS}, on every machine that reads"
            )
        size = self._files.get(directory / names[0]).size()
        self.log = Segments(self._files, directory, size)
        try:
            self.log.load()
        except StoreDamaged as error:
            raise StoreDamaged(f"{path} cannot be read: {error}") from error

    def close(self) -> None:
        self._files.close()

    def queues(self) -> list[Segments]:
        """Return the fullest consume queues, judged by the names of their files."""
        if self.root is None:
            return []
        found: list[tuple[int, Path]] = []
        directory = self.root / "consumequeue"
        for topic in self.disk.names(directory):
            for queue in self.disk.names(directory / topic):
                names = [name for name in self.disk.names(directory / topic / queue) if _is_segment(name)]
                if names:
                    found.append((int(names[-1]), directory / topic / queue))
        found.sort(key=lambda one: -one[0])
        return [segments for _, path in found[:_QUEUES_SEARCHED_MAX] if (segments := self._queue(path)) is not None]

    def _queue(self, path: Path) -> Segments | None:
        names = [name for name in self.disk.names(path) if _is_segment(name)]
        segments = Segments(self._files, path, self._files.get(path / names[0]).size())
        try:
            segments.load()
        except StoreDamaged:
            return None
        return segments if segments.segment_size and segments.segment_size % ENTRY_SIZE == 0 else None

    def durable_millis(self) -> int | None:
        """Return the store time up to which records are durable; None if no broker is writing, so that all are."""
        if self.root is None or self.disk.read(self.root / "abort") is None:
            return None
        checkpoint = Checkpoint(self.disk, self.root / "checkpoint")
        checkpoint.load()
        return checkpoint.log_timestamp


def plan_ranges(
    files: StoreFiles,
    period: Period | None = None,
    *,
    size: int | None = None,
    parallelism: int = 1,
    reads_unflushed: bool = False,
) -> list[LogRange]:
    """Return the ranges to read for a period, in log order; all of them below the durable end.

    Records that a running broker appends later are not included, so a range always contains the same records.
    By default the size is chosen so that there are about `parallelism` ranges.
    """
    log, queues = files.log, files.queues()
    starts = [start for start in log.starts if any(log.read(start, 8))]
    if not starts:
        return []
    end = _end(log, queues, starts, None if reads_unflushed else files.durable_millis())
    if size is None:
        size = range_size(end - starts[0], parallelism, has_period=period is not None)
    range_starts = _RangeStarts(log, queues, size, end).all(starts)
    period = period or Period()
    times = {start: _store_millis(log, start) for start in range_starts}
    found = []
    for index, start in enumerate(range_starts):
        following = range_starts[index + 1] if index + 1 < len(range_starts) else None
        first = times[start]
        last = None if following is None else times[following]
        # The time of a damaged record is unknown.
        if first is None or period.may_overlap(first, 2**63 - 1 if last is None else last):
            stop = end if following is None else following
            found.append(LogRange(start, min(stop, log.start_of(start) + log.segment_size)))
    return found


def range_size(log_size: int, parallelism: int, *, has_period: bool = False) -> int:
    """Return the default range size for a log."""
    size_max = _RANGE_SIZE_MAX_WITH_PERIOD if has_period else _RANGE_SIZE_MAX
    return max(_RANGE_SIZE_MIN, min(-(-log_size // parallelism), size_max))


class _RangeStarts:
    """Finds the starts of ranges: the start of each file, and records about `size` bytes apart in it."""

    def __init__(self, log: Segments, queues: list[Segments], size: int, end: int) -> None:
        self._log = log
        self._queues = queues
        self._size = size
        self._end = end

    def all(self, starts: list[int]) -> list[int]:
        found: list[int] = []
        for start in starts:
            if start < self._end:
                found.append(start)
                found += self._within(start)
        return found

    def _within(self, file_start: int) -> list[int]:
        stop = min(file_start + self._log.segment_size, self._end)
        found: list[int] = []
        last = file_start
        for target in range(file_start + self._size, stop - self._size // 2, self._size):
            start = self._record_by_queues(target, target + self._size // 2)
            if start is None:
                start = walk_to(self._log, last, target)
            if start is None or start >= self._end:
                break
            found.append(start)
            last = start
        return found

    def _record_by_queues(self, target: int, limit: int) -> int | None:
        """Return the start of a record between `target` and `limit`, found by binary search in the consume queues."""
        for queue in self._queues:
            offset = _entry_from(queue, target)
            if offset is not None and offset < limit and record_size_at(self._log, offset) is not None:
                return offset
        return None


def walk_to(log: Segments, start: int, target: int) -> int | None:
    """Follow records from `start` to the first one at or after `target`; None if the chain breaks before it."""
    offset = start
    while offset < target:
        _, offsets, end = _records_from(log, offset)
        if not len(offsets):
            return None
        offset = int(offsets[(offsets >= target).argmax()]) if offsets[-1] >= target else end
    size = record_size_at(log, offset) if log.start_of(offset) == log.start_of(start) else None
    return None if size is None else offset


class _Run(NamedTuple):
    """Contiguous records whose physical offsets are correct."""

    # Store times.
    millis: Longs
    offsets: Longs
    end: int


def _records_from(log: Segments, offset: int) -> _Run:
    """Return up to a chunk of records from `offset` on, within its file; none if there is no record at `offset`."""
    view = log.view(offset)
    base = offset if view is None else log.start_of(offset)
    data = log.read(offset, _CHUNK_SIZE) if view is None else view
    # Only one chunk: reading the unwritten part of a mapped sparse file would allocate its pages, which would look
    # like data to later scans.
    starts, end = walk(data, offset - base, min(offset - base + _CHUNK_SIZE, len(data)), _ROWS_MAX)
    if not len(starts):
        return _run_of_one(log, offset)
    heads = byte_windows(data, HEADS[0].itemsize)[starts].view(HEADS[0])
    is_good = (heads["physical_offset"] == starts + base) & np.isin(heads["magic"], _MAGICS)
    if not is_good.all():
        count = int(is_good.argmin())
        starts, end = starts[:count], int(starts[count])
    times_at = starts + np.array(STORE_TIMESTAMP_AT)[low_flags(data, starts) >> 4 & 1]
    return _Run(byte_windows(data, _LONG.size)[times_at].view(">i8"), starts + base, end + base)


def _run_of_one(log: Segments, offset: int) -> _Run:
    """Return the record at `offset` if its head is valid, even if it is longer than a chunk."""
    size = record_size_at(log, offset)
    offsets = [] if size is None else [offset]
    return _Run(np.array([_store_millis(log, found) for found in offsets]), np.array(offsets), offset + (size or 0))


def record_size_at(log: Segments, offset: int) -> int | None:
    """Return the size of the record at `offset`, or None if there is no record with this physical offset."""
    return _record_size(log.read(offset, _TIMED_HEAD_SIZE), 0, offset)


def _record_size(data: bytes | memoryview, at: int, offset: int) -> int | None:
    if at + _TIMED_HEAD_SIZE > len(data):
        return None
    size, magic, physical_offset = IDENTITY.unpack_from(data, at)
    return size if magic in _MAGICS and physical_offset == offset and size >= RECORD_SIZE_MIN else None


def _entry_from(queue: Segments, target: int) -> int | None:
    """Return the first physical offset in a consume queue that is at least `target`."""
    number = _first_entry_where(queue, lambda offset: offset >= target)
    return _entry_at(queue, number) if number < queue.end_offset // ENTRY_SIZE else None


def _first_entry_where(queue: Segments, holds: Callable[[int], bool]) -> int:
    """Return the index of the first entry whose physical offset satisfies a monotonic condition; the end if none."""
    low, high = queue.first_offset // ENTRY_SIZE, queue.end_offset // ENTRY_SIZE
    while low < high:
        middle = (low + high) // 2
        offset = _entry_at(queue, middle)
        if offset is None or holds(offset):
            high = middle
        else:
            low = middle + 1
    return low


def _entry_at(queue: Segments, number: int) -> int | None:
    """Return the physical offset of an entry; None if it was never written."""
    offset, size, _ = ENTRY.unpack(queue.read(number * ENTRY_SIZE, ENTRY_SIZE))
    return int(offset) if size > 0 else None


def _store_millis(log: Segments, offset: int) -> int | None:
    head = log.read(offset, _TIMED_HEAD_SIZE)
    if len(head) < _TIMED_HEAD_SIZE or _record_size(head, 0, offset) is None:
        return None
    return _millis_in(head, 0)


def _millis_in(data: bytes | memoryview, at: int) -> int:
    millis: int = _LONG.unpack_from(data, at + STORE_TIMESTAMP_AT[data[at + HOSTS_AT] >> 4 & 1])[0]
    return millis


def _end(log: Segments, queues: list[Segments], starts: list[int], durable_millis: int | None) -> int:
    """Return the end of the last record, or of the last one stored by `durable_millis`."""

    def is_later(offset: int) -> bool:
        return durable_millis is not None and (_store_millis(log, offset) or 0) > durable_millis

    # Start from the last entries of the queues, which are near the end, instead of scanning the whole last file.
    numbers = [(queue, _first_entry_where(queue, is_later) - 1) for queue in queues]
    entries = [_entry_at(queue, number) for queue, number in numbers if number * ENTRY_SIZE >= queue.first_offset]
    known = [offset for offset in entries if offset is not None and record_size_at(log, offset) is not None]
    offset = max((offset for offset in [*starts, *known] if not is_later(offset)), default=starts[0])
    while True:
        millis, offsets, end = _records_from(log, offset)
        if len(offsets):
            if durable_millis is not None and (are_later := millis > durable_millis).any():
                return int(offsets[are_later.argmax()])
            offset = end
            continue
        if _is_empty(log, offset, starts[-1]):
            return offset
        # A blank or a damaged range; the scan finds the next record.
        run = next(iter(Scan(log).runs(offset)), None)
        if run is None:
            return offset
        offset = run[0].physical_offset


def _is_empty(log: Segments, offset: int, last_start: int) -> bool:
    """Whether the last file has only zeros from `offset` on: its preallocated, unwritten part."""
    if offset < last_start:
        return False
    end = log.data_end(last_start)
    buffer = memoryview(bytearray(_ZEROS_SIZE))
    while offset < end:
        data = log.read_into(offset, buffer[: end - offset])
        if not len(data) or np.frombuffer(data, np.uint8).any():
            return False
        offset += len(data)
    return True


def _is_segment(name: str) -> bool:
    return len(name) == NAME_DIGITS and name.isdigit()
