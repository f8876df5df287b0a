"""Which ranges of a commit log to read, each from the beginning of a record on."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kerolox.errors import ConfigurationError
from kerolox.message.record import HOSTS_AT, MAGIC_V1, MAGIC_V2
from kerolox.runtime.files import Disk
from kerolox.spark.fields import HEADS, Longs, everywhere, low_flags, walk
from kerolox.store.checking.read_only import ReadOnlyDisk
from kerolox.store.checkpoint import Checkpoint
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.scan import Scan
from kerolox.store.log.segments import NAME_DIGITS, OpenFiles, Segments
from kerolox.store.queue.consume_queue import ENTRY, ENTRY_SIZE

# Each core gets a range, if it is worth a task; and none is so large that to begin it again would cost much.
_RANGE_SIZE_MIN: Final = 32 * 1024 * 1024
_RANGE_SIZE_MAX: Final = 512 * 1024 * 1024
# As large as Spark cuts other files. Those that a period does not touch are left out, so that small ones pay.
_RANGE_SIZE_OF_PERIOD: Final = 128 * 1024 * 1024

# Size, magic and physical offset.
_HEAD = struct.Struct(">II20xq")
_LONG = struct.Struct(">q")
_TIME_AT: Final = (56, 68)
_TIMED_HEAD_SIZE: Final = 76
_RECORD_SIZE_MIN: Final = 91
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_OPEN_FILES_MAX: Final = 16
# So much is looked at in one step.
_CHUNK_SIZE: Final = 4 * 1024 * 1024
_ROWS_MAX: Final = 65_536
_ZEROS_SIZE: Final = 512 * 1024
# The fullest queues have a record in almost every range, so that few of them need to be asked.
_QUEUES_ASKED_MAX: Final = 16
# A clock may be set back a little, and then store times are not in the order of the log.
_CLOCK_MARGIN_MILLIS: Final = 60_000


class LogRange(NamedTuple):
    """Bytes of the log, within one file: from the beginning of a record up to that of another, or to the end."""

    start: int
    end: int


@dataclass(frozen=True)
class Period:
    """When records were stored: the first millisecond, and the one after the last."""

    start_millis: int = 0
    end_millis: int = 2**63 - 1

    def may_overlap(self, first_millis: int, last_millis: int) -> bool:
        return (
            last_millis >= self.start_millis - _CLOCK_MARGIN_MILLIS
            and first_millis < self.end_millis + _CLOCK_MARGIN_MILLIS
        )


class StoreFiles:
    """The files of a store, or only of its log, which are looked at and never changed."""

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
        """Returns the fullest consume queues, by the names of their files."""
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
        return [segments for _, path in found[:_QUEUES_ASKED_MAX] if (segments := self._queue(path)) is not None]

    def _queue(self, path: Path) -> Segments | None:
        names = [name for name in self.disk.names(path) if _is_segment(name)]
        segments = Segments(self._files, path, self._files.get(path / names[0]).size())
        try:
            segments.load()
        except StoreDamaged:
            return None
        return segments if segments.segment_size and segments.segment_size % ENTRY_SIZE == 0 else None

    def durable_millis(self) -> int | None:
        """Returns up to which store time records survive a power cut; None if all do, since nobody writes here."""
        if self.root is None or self.disk.read(self.root / "abort") is None:
            return None
        checkpoint = Checkpoint(self.disk, self.root / "checkpoint")
        checkpoint.load()
        return checkpoint.log_timestamp


def ranges(
    files: StoreFiles,
    period: Period | None = None,
    *,
    size: int | None = None,
    parallelism: int = 1,
    is_unflushed_read: bool = False,
) -> list[LogRange]:
    """Returns the ranges to be read for a period, in the order of the log; all of them below its durable end.

    What was written since by a broker at work is not in them, so that whoever reads them again finds the same.
    If their size is not said it is such that there are about as many as can be read at the same time.
    """
    log, queues = files.log, files.queues()
    starts = [start for start in log.starts if any(log.read(start, 8))]
    if not starts:
        return []
    end = _end(log, queues, starts, None if is_unflushed_read else files.durable_millis())
    if size is None:
        size = range_size(end - starts[0], parallelism, has_period=period is not None)
    edges = _Edges(log, queues, size, end).all(starts)
    period = period or Period()
    times = {edge: _store_millis(log, edge) for edge in edges}
    found = []
    for index, start in enumerate(edges):
        following = edges[index + 1] if index + 1 < len(edges) else None
        first = times[start]
        last = None if following is None else times[following]
        # Where a record is damaged its time is not known.
        if first is None or period.may_overlap(first, 2**63 - 1 if last is None else last):
            stop = end if following is None else following
            found.append(LogRange(start, min(stop, log.start_of(start) + log.segment_size)))
    return found


def range_size(log_size: int, parallelism: int, *, has_period: bool = False) -> int:
    """Returns how large ranges of a log should be."""
    size_max = _RANGE_SIZE_OF_PERIOD if has_period else _RANGE_SIZE_MAX
    return max(_RANGE_SIZE_MIN, min(-(-log_size // parallelism), size_max))


class _Edges:
    """Finds where ranges may begin: at each file, and in it at records that are far enough from each other."""

    def __init__(self, log: Segments, queues: list[Segments], size: int, end: int) -> None:
        self._log = log
        self._queues = queues
        self._size = size
        self._end = end

    def all(self, starts: list[int]) -> list[int]:
        edges: list[int] = []
        for start in starts:
            if start < self._end:
                edges.append(start)
                edges += self._within(start)
        return edges

    def _within(self, start: int) -> list[int]:
        stop = min(start + self._log.segment_size, self._end)
        found: list[int] = []
        last = start
        for target in range(start + self._size, stop - self._size // 2, self._size):
            edge = self._by_queues(target, target + self._size // 2)
            if edge is None:
                edge = walked(self._log, last, target)
            if edge is None or edge >= self._end:
                break
            found.append(edge)
            last = edge
        return found

    def _by_queues(self, target: int, limit: int) -> int | None:
        """Returns a record of some queue at `target` or soon after it."""
        for queue in self._queues:
            offset = _entry_from(queue, target)
            if offset is not None and offset < limit and head_at(self._log, offset) is not None:
                return offset
        return None


def walked(log: Segments, start: int, target: int) -> int | None:
    """Returns the first record at `target` or after it, from one record to the next; None if the way ends before it."""
    offset = start
    while offset < target:
        _, places, end = _records_from(log, offset)
        if not len(places):
            return None
        offset = int(places[(places >= target).argmax()]) if places[-1] >= target else end
    size = head_at(log, offset) if log.start_of(offset) == log.start_of(start) else None
    return None if size is None else offset


class _Run(NamedTuple):
    """Records one after the other that say themselves where they lie."""

    # When each was stored.
    millis: Longs
    places: Longs
    end: int


def _records_from(log: Segments, offset: int) -> _Run:
    """Returns records from `offset` on, many at once, but only some of those of its file; none if none stands there."""
    view = log.view(offset)
    base = offset if view is None else log.start_of(offset)
    data = log.read(offset, _CHUNK_SIZE) if view is None else view
    # Not all at once: who looks where nothing was written yet makes pages of it, which then seem to be data.
    starts, end = walk(data, offset - base, min(offset - base + _CHUNK_SIZE, len(data)), _ROWS_MAX)
    if not len(starts):
        return _run_of_one(log, offset)
    heads = everywhere(data, HEADS[0].itemsize)[starts].view(HEADS[0])
    is_good = (heads["physical_offset"] == starts + base) & np.isin(heads["magic"], _MAGICS)
    if not is_good.all():
        count = int(is_good.argmin())
        starts, end = starts[:count], int(starts[count])
    times_at = starts + np.array(_TIME_AT)[low_flags(data, starts) >> 4 & 1]
    return _Run(everywhere(data, _LONG.size)[times_at].view(">i8"), starts + base, end + base)


def _run_of_one(log: Segments, offset: int) -> _Run:
    """Returns the record at `offset`, if it is one, though not all of it could be seen."""
    size = head_at(log, offset)
    places = [] if size is None else [offset]
    return _Run(np.array([_store_millis(log, place) for place in places]), np.array(places), offset + (size or 0))


def head_at(log: Segments, offset: int) -> int | None:
    """Returns the size of the record at `offset`, or None if none stands there that says so itself."""
    return _head_in(log.read(offset, _TIMED_HEAD_SIZE), 0, offset)


def _head_in(data: bytes | memoryview, at: int, offset: int) -> int | None:
    if at + _TIMED_HEAD_SIZE > len(data):
        return None
    size, magic, said_offset = _HEAD.unpack_from(data, at)
    return size if magic in _MAGICS and said_offset == offset and size >= _RECORD_SIZE_MIN else None


def _entry_from(queue: Segments, target: int) -> int | None:
    """Returns the physical offset of the first entry of a queue that is not less than `target`."""
    number = _first_where(queue, lambda offset: offset >= target)
    return _entry_at(queue, number) if number < queue.end_offset // ENTRY_SIZE else None


def _first_where(queue: Segments, holds: Callable[[int], bool]) -> int:
    """Returns the number of the first entry of whose physical offset that holds, as of those after it; or of none."""
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
    """Returns the physical offset of an entry; None if it was never written."""
    offset, size, _ = ENTRY.unpack(queue.read(number * ENTRY_SIZE, ENTRY_SIZE))
    return int(offset) if size > 0 else None


def _store_millis(log: Segments, offset: int) -> int | None:
    head = log.read(offset, _TIMED_HEAD_SIZE)
    if len(head) < _TIMED_HEAD_SIZE or _head_in(head, 0, offset) is None:
        return None
    return _millis_in(head, 0)


def _millis_in(data: bytes | memoryview, at: int) -> int:
    millis: int = _LONG.unpack_from(data, at + _TIME_AT[data[at + HOSTS_AT] >> 4 & 1])[0]
    return millis


def _end(log: Segments, queues: list[Segments], starts: list[int], durable_millis: int | None) -> int:
    """Returns where the last record ends; with a time, where the last ends that was stored by then."""

    def is_later(offset: int) -> bool:
        return durable_millis is not None and (_store_millis(log, offset) or 0) > durable_millis

    # Those that the queues know last are near the end, where else the last file would have to be gone through.
    numbers = [(queue, _first_where(queue, is_later) - 1) for queue in queues]
    entries = [_entry_at(queue, number) for queue, number in numbers if number * ENTRY_SIZE >= queue.first_offset]
    known = [offset for offset in entries if offset is not None and head_at(log, offset) is not None]
    offset = max((offset for offset in [*starts, *known] if not is_later(offset)), default=starts[0])
    while True:
        millis, places, end = _records_from(log, offset)
        if len(places):
            if durable_millis is not None and (are_later := millis > durable_millis).any():
                return int(places[are_later.argmax()])
            offset = end
            continue
        if _is_empty(log, offset, starts[-1]):
            return offset
        # A blank, or a damage; who looks for the next record knows.
        run = next(iter(Scan(log).runs(offset)), None)
        if run is None:
            return offset
        offset = run[0].physical_offset


def _is_empty(log: Segments, offset: int, last_start: int) -> bool:
    """Whether there are only zeros from `offset` on, up to the end of the last file: what it was given to grow into."""
    if offset < last_start:
        return False
    end = log.data_end(last_start)
    room = memoryview(bytearray(_ZEROS_SIZE))
    while offset < end:
        data = log.read_into(offset, room[: end - offset])
        if not len(data) or np.frombuffer(data, np.uint8).any():
            return False
        offset += len(data)
    return True


def _is_segment(name: str) -> bool:
    return len(name) == NAME_DIGITS and name.isdigit()
