"""The timer log: one unit per pending message, linked to the previous unit of the same slot (TimerLog).

int32  size of the unit, 52                      int64  physical offset of the message
int64  position of the previous unit, or -1      int32  size of the message
int32  magic: 1, +2 rolls, +4 recalls            int32  hash of its real topic
int64  enqueue time                              int64  reserved
int32  milliseconds from then until it is due

Units do not span files. A blank fills the end of a file: the bytes left, 0, and a magic.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kerolox.runtime.files import Disk
from kerolox.store.log.segments import OpenFiles, Segments, Sync

UNIT = struct.Struct(">iqiqiqiiq")
UNIT_SIZE = UNIT.size

MAGIC_DEFAULT = 1
MAGIC_ROLL = 2
MAGIC_DELETE = 4

_MAGIC_MAX = 15
_BLANK = struct.Struct(">iqI")
_BLANK_MAGIC = 0xCBD43194
_CHUNK_UNITS = 4096
_FILES_MAX = 16


class Unit(NamedTuple):
    previous: int
    magic: int
    enqueue_time: int
    delay: int
    physical_offset: int
    size: int
    topic_hash: int

    @property
    def time(self) -> int:
        """The time at which it is due, or rolls."""
        return self.enqueue_time + self.delay

    @property
    def rolls(self) -> bool:
        return bool(self.magic & MAGIC_ROLL)

    @property
    def is_recall(self) -> bool:
        return bool(self.magic & MAGIC_DELETE)


class TimerLog:
    """Units are kept in memory until `flush`: they must not be on disk before the messages they refer to."""

    def __init__(self, disk: Disk, directory: Path, file_size: int) -> None:
        self._files = OpenFiles(disk, _FILES_MAX)
        # Only the directory itself may be new with the first file.
        self._segments = Segments(self._files, directory, file_size, is_sparse=True, parents_to_sync=1)
        self._pending = bytearray()
        self._written = 0
        # Durable up to this position.
        self.durable = 0

    @property
    def end(self) -> int:
        """The position after the last unit."""
        return self._written + len(self._pending)

    @property
    def first(self) -> int:
        return self._segments.first_offset

    @property
    def pending_bytes(self) -> int:
        return len(self._pending)

    def load(self) -> None:
        """Find the files; StoreDamaged if they are not a valid log. The caller finds the end of the units."""
        self._segments.load()
        self._written = self._segments.end_offset

    def cut(self, end: int) -> None:
        """Truncate the log at `end`, the end of the last good unit."""
        self._segments.cut(end)
        self._written = self.durable = end

    def reset(self) -> None:
        """Remove all units and files."""
        self._segments.discard()
        self._pending.clear()
        self._written = self.durable = 0

    def append(self, unit: Unit) -> int:
        """Append a unit and return its position; if it does not fit into the file, a blank comes first."""
        room = self._segments.room_after(self.end)
        if room < UNIT_SIZE + _BLANK.size:
            self._pending += _BLANK.pack(room, 0, _BLANK_MAGIC).ljust(room, b"\0")
        position = self.end
        self._pending += UNIT.pack(UNIT_SIZE, *unit, 0)
        return position

    def unit(self, position: int) -> Unit | None:
        """Return the unit at a position; None if there is no valid one."""
        return _unit(self._read(position, UNIT_SIZE), position)

    def _read(self, position: int, size: int) -> bytes:
        start = position - self._written
        if start >= 0:
            return bytes(self._pending[start : start + size])
        return self._segments.read(position, min(size, self._written - position))

    def units(self, position: int, end: int | None = None) -> Iterator[tuple[int, Unit]]:
        """Yield units with their positions, up to the first invalid one."""
        end = self.end if end is None else end
        while position < end:
            chunk = self._read(position, min(_CHUNK_UNITS * UNIT_SIZE, end - position))
            at = 0
            while at + UNIT_SIZE <= len(chunk):
                unit = _unit(chunk[at : at + UNIT_SIZE], position + at)
                if unit is None:
                    break
                yield position + at, unit
                at += UNIT_SIZE
            position += at
            if self.is_blank(position):
                position += self._segments.room_after(position)
            elif at == 0:
                return

    def is_blank(self, position: int) -> bool:
        """Whether a blank at `position` fills the rest of its file."""
        data = self._read(position, _BLANK.size)
        return data == _BLANK.pack(self._segments.room_after(position), 0, _BLANK_MAGIC)

    def after(self, position: int) -> int:
        """Return `position` if a unit can begin there, else the start of its file."""
        start = self._segments.start_of(position)
        is_unit = (position - start) % UNIT_SIZE == 0
        return max(self.first, position if is_unit else start)

    def flush(self, end: int) -> None:
        """Write pending units up to `end`; on OSError the unwritten ones stay pending."""
        while self._written < end:
            if self._written >= self._segments.end_offset:
                self._segments.extend(self._written)
            piece = bytes(self._pending[: min(end - self._written, self._segments.room_after(self._written))])
            self._segments.write(self._written, piece)
            del self._pending[: len(piece)]
            self._written += len(piece)

    def hold(self) -> Sync:
        """Return a sync of what was written, to run in a thread; release it before the next flush."""
        return self._segments.prepare_sync(min(self.durable, self._written - 1), self._written)

    def release(self, sync: Sync) -> None:
        self._segments.release(sync)
        if sync.is_done:
            self.durable = self._written

    def close(self) -> None:
        self._files.close()

    def delete_before(self, physical_offset: int) -> int:
        """Delete files whose last message is gone from the commit log, but never the last file; return how many."""
        count = 0
        for start in self._segments.starts[:-1]:
            size = self._segments.segment_size
            last = self.unit(start + (size - _BLANK.size) // UNIT_SIZE * UNIT_SIZE - UNIT_SIZE)
            if last is None or last.physical_offset >= physical_offset:
                break
            count += self._segments.delete_before(start + size)
        return count


def _unit(data: bytes, position: int) -> Unit | None:
    if len(data) < UNIT_SIZE:
        return None
    size, *rest, _ = UNIT.unpack(data)
    unit = Unit._make(rest)
    is_sound = size == UNIT_SIZE and 0 < unit.magic <= _MAGIC_MAX and -1 <= unit.previous < position
    return unit if is_sound and unit.physical_offset >= 0 and unit.size > 0 else None
