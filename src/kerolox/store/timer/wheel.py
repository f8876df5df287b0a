"""The timer wheel: one slot per time, with the chain of its units in the timer log (TimerWheel).

int64  the time in units of the precision          slot number = time modulo number of slots;
int64  position of the first unit                  a slot that was never written is zero
int64  position of the last unit
int32  number of messages
int32  magic, unused
"""

import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kerolox.runtime.files import Disk, File
from kerolox.store.errors import StoreDamaged, StoreError

log = logging.getLogger(__name__)

SLOT = struct.Struct(">qqqii")
# Java's wheel covers seven days before and after the current time.
SLOTS = 2 * 7 * 24 * 3600

_PAGE_SLOTS = 128
_PAGE_SIZE = _PAGE_SLOTS * SLOT.size
_CHUNK_SIZE = 256 * _PAGE_SIZE
_EMPTY_CHUNK = bytes(_CHUNK_SIZE)
_TIMES = struct.Struct(">q24x")


class Slot(NamedTuple):
    """The chain of one slot; positions are -1 if it is empty."""

    first: int = -1
    last: int = -1
    messages: int = 0


class Wheel:
    """Only pages with pending slots are in memory; changed pages are written by `Changes.write`.

    Times are milliseconds and multiples of the precision.
    """

    def __init__(self, disk: Disk, path: Path, *, precision: int = 1000, slots: int = SLOTS) -> None:
        self._disk = disk
        self._path = path
        self.precision = precision
        self._slots = slots
        self._size = slots * SLOT.size
        self._file: File | None = None
        self._pages: dict[int, bytearray] = {}
        self._changed: set[int] = set()
        # Slots before this time are finished and may be overwritten.
        self.read_time = 0

    @property
    def pages(self) -> int:
        """Number of pages in memory."""
        return len(self._pages)

    @property
    def _first_unit(self) -> int:
        # Zero marks slots that were never written.
        return max(1, self.read_time // self.precision)

    def load(self, read_time: int, written_precision: int | None = None) -> None:
        """Open or create the file and read the slots from `read_time` on.

        StoreDamaged if its size is wrong; call `reset` then. StoreError if it was written with another precision and
        messages are pending; without pending messages it is emptied.
        """
        wanted, self.precision = self.precision, written_precision or self.precision
        self.read_time = read_time // self.precision * self.precision
        self._load()
        if wanted != self.precision:
            if self._pages:
                raise StoreError(
                    f"timerPrecisionMs is {wanted}, but messages are pending in a wheel of {self.precision}"
                )
            self.precision = wanted
            self.reset(read_time)

    def reset(self, read_time: int) -> None:
        """Empty the wheel, give its file the right size and set `read_time`."""
        assert self._file is not None
        self._pages.clear()
        self._changed.clear()
        self.read_time = read_time // self.precision * self.precision
        self._file.truncate(0)
        self._file.truncate(self._size)

    def _load(self) -> None:
        self._file = file = self._disk.open(self._path, create=True)
        size = file.size()
        if size == 0:
            file.truncate(self._size)
            file.sync()
            self._disk.sync(self._path.parent)
        elif size != self._size:
            raise StoreDamaged(f"{self._path} has {size} bytes, expected {self._size}")
        for start in range(0, size, _CHUNK_SIZE):
            chunk = file.read(start, _CHUNK_SIZE)
            if chunk != _EMPTY_CHUNK[: len(chunk)]:
                self._load_pages(start, chunk)

    def _load_pages(self, start: int, chunk: bytes) -> None:
        first_unit = self._first_unit
        for at in range(0, len(chunk), _PAGE_SIZE):
            page = chunk[at : at + _PAGE_SIZE]
            if any(unit >= first_unit for (unit,) in _TIMES.iter_unpack(page)):
                self._pages[(start + at) // _PAGE_SIZE] = bytearray(page)

    def slot(self, time: int) -> Slot:
        """Return the slot of a time; empty for times before `read_time`."""
        page_number, at, unit = self._locate(time)
        page = self._pages.get(page_number)
        if page is not None:
            stored, first, last, count, _ = SLOT.unpack_from(page, at)
            if stored == unit and time >= self.read_time:
                return Slot(first, last, count)
        return Slot()

    def is_taken(self, time: int) -> bool:
        """Whether the slot of a time still holds pending messages of another round of the wheel."""
        page_number, at, unit = self._locate(time)
        page = self._pages.get(page_number)
        if page is None:
            return False
        (stored,) = _TIMES.unpack_from(page, at)
        return bool(stored != unit and stored * self.precision >= max(self.read_time, 1))

    def put(self, time: int, slot: Slot) -> None:
        page_number, at, unit = self._locate(time)
        page = self._pages.get(page_number)
        if page is None:
            size = min(_PAGE_SIZE, self._size - page_number * _PAGE_SIZE)
            # The page in the file has only finished slots, otherwise it would be in memory.
            page = self._pages[page_number] = bytearray(size)
        SLOT.pack_into(page, at, unit, slot.first, slot.last, slot.messages, 0)
        self._changed.add(page_number)

    def add(self, time: int, position: int, weight: int) -> None:
        """Add the unit at `position` to the chain of a slot; `weight` is 1, or -1 for a recall."""
        slot = self.slot(time)
        self.put(time, Slot(position if slot.first < 0 else slot.first, position, slot.messages + weight))

    def clear(self, time: int) -> None:
        """Empty the slot of a time."""
        if self.slot(time).last >= 0:
            page_number, at, _ = self._locate(time)
            SLOT.pack_into(self._pages[page_number], at, 0, 0, 0, 0, 0)
            self._changed.add(page_number)

    def next_due(self, end_time: int, slots_max: int) -> int | None:
        """Advance `read_time` to the next non-empty slot before `end_time` and return it.

        None if there is no such slot among the next `slots_max`; then `read_time` is the time of the next pending
        slot, or `end_time` if there is none before it.
        """
        while self.read_time < end_time and slots_max > 0:
            page_number, at, _ = self._locate(self.read_time)
            if page_number not in self._pages:
                skipped = min(_PAGE_SLOTS, self._slots - page_number * _PAGE_SLOTS) - at // SLOT.size
                self.read_time = min(end_time, self.read_time + skipped * self.precision)
                slots_max -= 1
            elif self.slot(self.read_time).last >= 0:
                return self.read_time
            else:
                self.advance(self.read_time + self.precision)
                slots_max -= 1
        if self.read_time < end_time:
            # After a long stop, or a jump of the clock, the end may be years away.
            self.read_time = min(end_time, min((time for time, _ in self.pending()), default=end_time))
        return None

    def advance(self, time: int) -> None:
        """Set `read_time` to a later time; slots before it are finished."""
        before, _, _ = self._locate(self.read_time)
        self.read_time = time
        after, _, _ = self._locate(time)
        if before != after and before not in self._changed and not self._has_pending(before):
            self._pages.pop(before, None)

    def rewind(self, time: int) -> None:
        """Set `read_time` back to `time`, and erases the slots up to where it was: they were delivered.

        Pages that are not in memory are read from the file, so no flush may be running.
        """
        assert self._file is not None
        first, end = time // self.precision, self._first_unit
        for number, page in self._pages.items():
            if self._erase(page, first, end):
                self._changed.add(number)
        for start in range(0, self._size, _CHUNK_SIZE):
            chunk = self._file.read(start, _CHUNK_SIZE)
            if chunk == _EMPTY_CHUNK[: len(chunk)]:
                continue
            for at in range(0, len(chunk), _PAGE_SIZE):
                number, page = (start + at) // _PAGE_SIZE, bytearray(chunk[at : at + _PAGE_SIZE])
                if number not in self._pages and self._erase(page, first, end):
                    self._pages[number] = page
                    self._changed.add(number)
        self.read_time = time // self.precision * self.precision

    @staticmethod
    def _erase(page: bytearray, first: int, end: int) -> bool:
        """Clear the slots of a page whose time is in `[first, end)`; False if there are none."""
        found = [number for number, (unit,) in enumerate(_TIMES.iter_unpack(page)) if first <= unit < end]
        for number in found:
            SLOT.pack_into(page, number * SLOT.size, 0, 0, 0, 0, 0)
        return bool(found)

    def _has_pending(self, page_number: int) -> bool:
        page = self._pages.get(page_number, b"")
        first_unit = self._first_unit
        return any(unit >= first_unit for (unit,) in _TIMES.iter_unpack(page))

    def pending(self) -> Iterator[tuple[int, Slot]]:
        """Yield all non-empty slots from `read_time` on with their times, in no order."""
        first_unit = self._first_unit
        for page in list(self._pages.values()):
            for unit, first, last, count, _ in SLOT.iter_unpack(page):
                if unit >= first_unit:
                    yield unit * self.precision, Slot(first, last, count)

    def due_between(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield times in `[begin, end)` with the number of messages due at each, possibly 0.

        Pages are examined lazily, so the caller may yield to the event loop in between.
        """
        begin = max(begin, self.read_time)
        first, last = begin // self.precision, (end - 1) // self.precision
        at = first
        while at <= last:
            page_number, number = divmod(at % self._slots, _PAGE_SLOTS)
            for unit, _, _, count, _ in SLOT.iter_unpack(self._pages.get(page_number, b"")):
                if at <= unit <= last:
                    yield unit * self.precision, count
            at += min(_PAGE_SLOTS, self._slots - page_number * _PAGE_SLOTS) - number

    def take_changes(self) -> "Changes":
        """Return the pages changed since the last call, as they are now."""
        assert self._file is not None
        pages = {number: bytes(self._pages[number]) for number in sorted(self._changed)}
        self._changed.clear()
        for number in pages:
            if not self._has_pending(number):
                del self._pages[number]
        return Changes(self._file, pages)

    def restore_changes(self, changes: "Changes") -> None:
        """Mark pages as changed again after writing them failed."""
        self._changed.update(number for number in changes.pages if number in self._pages)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _locate(self, time: int) -> tuple[int, int, int]:
        unit = time // self.precision
        page_number, number = divmod(unit % self._slots, _PAGE_SLOTS)
        return page_number, number * SLOT.size, unit


class Changes(NamedTuple):
    """A snapshot of changed pages. `write` may run in a thread."""

    file: File
    pages: dict[int, bytes]

    def write(self) -> None:
        for number, page in self.pages.items():
            self.file.write(number * _PAGE_SIZE, page)
