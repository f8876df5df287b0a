"""Which ranges of a commit log to read, each from the beginning of a record on."""

import struct
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

# As large as Spark cuts other files.
RANGE_SIZE: Final = 128 * 1024 * 1024

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
    files: StoreFiles, period: Period | None = None, *, size: int = RANGE_SIZE, is_unflushed_read: bool = False
) -> list[LogRange]:
    """Returns the ranges to be read for a period, in the order of the log; all of them below its durable end.

    What was written since by a broker at work is not in them, so that whoever reads them again finds the same.
    """
    period = period or Period()
    log = files.log
    edges = _Edges(files, size).all()
    millis = None if is_unflushed_read else files.durable_millis()
    end = _end(log, edges, millis)
    edges = [edge for edge in edges if edge < end]
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


class _Edges:
    """Finds where ranges may begin: at each file, and in it at records that are far enough from each other."""

    def __init__(self, files: StoreFiles, size: int) -> None:
        self._log = files.log
        self._size = size
        self._queues = files.queues() if size < files.log.segment_size else []

    def all(self) -> list[int]:
        edges: list[int] = []
        for start in self._log.starts:
            if any(self._log.read(start, 8)):
                edges.append(start)
                edges += self._within(start)
        return edges

    def _within(self, start: int) -> list[int]:
        targets = range(start + self._size, start + self._log.segment_size - self._size // 2, self._size)
        found: list[int] = []
        last = start
        for target in targets:
            edge = self._by_queues(target, target + self._size // 2)
            if edge is None:
                edge = walked(self._log, last, target)
            if edge is None:
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
    starts, end = walk(data, offset - base, len(data), _ROWS_MAX)
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
    low, high = queue.first_offset // ENTRY_SIZE, queue.end_offset // ENTRY_SIZE
    last = high
    while low < high:
        middle = (low + high) // 2
        offset, size, _ = ENTRY.unpack(queue.read(middle * ENTRY_SIZE, ENTRY_SIZE))
        if size > 0 and offset < target:
            low = middle + 1
        else:
            high = middle
    if low == last:
        return None
    offset, size, _ = ENTRY.unpack(queue.read(low * ENTRY_SIZE, ENTRY_SIZE))
    return int(offset) if size > 0 else None


def _store_millis(log: Segments, offset: int) -> int | None:
    head = log.read(offset, _TIMED_HEAD_SIZE)
    if len(head) < _TIMED_HEAD_SIZE or _head_in(head, 0, offset) is None:
        return None
    return _millis_in(head, 0)


def _millis_in(data: bytes | memoryview, at: int) -> int:
    millis: int = _LONG.unpack_from(data, at + _TIME_AT[data[at + HOSTS_AT] >> 4 & 1])[0]
    return millis


def _end(log: Segments, edges: list[int], durable_millis: int | None) -> int:
    """Returns where the last record ends; with a time, where the last ends that was stored by then."""
    if not edges:
        return log.first_offset
    known = edges
    if durable_millis is not None:
        known = [edge for edge in edges if (_store_millis(log, edge) or 0) <= durable_millis] or edges[:1]
    offset = known[-1]
    while True:
        millis, places, end = _records_from(log, offset)
        if len(places):
            if durable_millis is not None and (is_later := millis > durable_millis).any():
                return int(places[is_later.argmax()])
            offset = end
            continue
        # A blank, a damage, or nothing more; who looks for the next record knows.
        run = next(iter(Scan(log).runs(offset)), None)
        if run is None:
            return offset
        offset = run[0].physical_offset


def _is_segment(name: str) -> bool:
    return len(name) == NAME_DIGITS and name.isdigit()
