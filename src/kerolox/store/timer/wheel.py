"""The timer wheel: for each moment, where in the timer log the chain of what is due then begins and ends.

int64  the moment, in units of the precision       slot n is that of the moments that leave n
int64  position of the first unit                  when divided by the number of slots;
int64  position of the last unit                   what was never written is zero
int32  how many messages
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
# Java's wheel has room for seven days behind the present and seven ahead of it.
SLOTS = 2 * 7 * 24 * 3600

_PAGE_SLOTS = 128
_PAGE_SIZE = _PAGE_SLOTS * SLOT.size
_CHUNK_SIZE = 256 * _PAGE_SIZE
_EMPTY_CHUNK = bytes(_CHUNK_SIZE)
_TIMES = struct.Struct(">q24x")


class Slot(NamedTuple):
    """What is due at one moment; positions are -1 while nothing is."""

    first: int = -1
    last: int = -1
    messages: int = 0


class Wheel:
    """Only pages with something to come are in memory; changed ones are written behind, by `flush`.

    Moments are milliseconds and multiples of the precision.
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
        # What lies before it is history, and may be overwritten.
        self.read_time = 0

    @property
    def pages(self) -> int:
        """How many pages are in memory."""
        return len(self._pages)

    @property
    def _first_unit(self) -> int:
        # Zero stands in slots that were never written.
        return max(1, self.read_time // self.precision)

    def load(self, read_time: int, written_precision: int | None = None) -> None:
        """Opens or makes the file and reads what is due at `read_time` or later; StoreDamaged if its size is wrong.

        StoreError if it was written with another precision and something is still due; else it begins anew.
        """
        wanted, self.precision = self.precision, written_precision or self.precision
        self.read_time = read_time // self.precision * self.precision
        self._load()
        if wanted != self.precision:
            if self._pages:
                raise StoreError(f"timerPrecisionMs is {wanted}, and messages wait in a wheel of {self.precision}")
            self.precision = wanted
            self.read_time = read_time // wanted * wanted
            assert self._file is not None
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
                self._keep(start, chunk)

    def _keep(self, start: int, chunk: bytes) -> None:
        first_unit = self._first_unit
        for at in range(0, len(chunk), _PAGE_SIZE):
            page = chunk[at : at + _PAGE_SIZE]
            if any(unit >= first_unit for (unit,) in _TIMES.iter_unpack(page)):
                self._pages[(start + at) // _PAGE_SIZE] = bytearray(page)

    def slot(self, time: int) -> Slot:
        """Returns what is due at a moment from `read_time` on."""
        page_number, at, unit = self._place(time)
        page = self._pages.get(page_number)
        if page is not None:
            said, first, last, count, _ = SLOT.unpack_from(page, at)
            if said == unit and time >= self.read_time:
                return Slot(first, last, count)
        return Slot()

    def is_taken(self, time: int) -> bool:
        """Whether the slot of a moment still holds what was due a whole turn of the wheel earlier, or more."""
        page_number, at, unit = self._place(time)
        page = self._pages.get(page_number)
        if page is None:
            return False
        (said,) = _TIMES.unpack_from(page, at)
        return bool(said != unit and said * self.precision >= max(self.read_time, 1))

    def put(self, time: int, slot: Slot) -> None:
        page_number, at, unit = self._place(time)
        page = self._pages.get(page_number)
        if page is None:
            size = min(_PAGE_SIZE, self._size - page_number * _PAGE_SIZE)
            # What the file has there is history, else it would be in memory.
            page = self._pages[page_number] = bytearray(size)
        SLOT.pack_into(page, at, unit, slot.first, slot.last, slot.messages, 0)
        self._changed.add(page_number)

    def enter(self, time: int, position: int, weight: int) -> None:
        """Adds the unit at `position` to the chain of a moment; `weight` is 1, or -1 for a recall."""
        slot = self.slot(time)
        self.put(time, Slot(position if slot.first < 0 else slot.first, position, slot.messages + weight))

    def clear(self, time: int) -> None:
        """Forgets what is due at a moment."""
        if self.slot(time).last >= 0:
            page_number, at, _ = self._place(time)
            SLOT.pack_into(self._pages[page_number], at, 0, 0, 0, 0, 0)
            self._changed.add(page_number)

    def next_due(self, end_time: int, slots_max: int) -> int | None:
        """Moves `read_time` on to the next moment before `end_time` at which something is due, and returns it.

        None if there is no such moment; then `read_time` is `end_time`, or as many slots further on as were allowed.
        """
        while self.read_time < end_time and slots_max > 0:
            page_number, at, _ = self._place(self.read_time)
            if page_number not in self._pages:
                skipped = min(_PAGE_SLOTS, self._slots - page_number * _PAGE_SLOTS) - at // SLOT.size
                self.read_time = min(end_time, self.read_time + skipped * self.precision)
                slots_max -= 1
            elif self.slot(self.read_time).last >= 0:
                return self.read_time
            else:
                self.pass_by(self.read_time + self.precision)
                slots_max -= 1
        return None

    def pass_by(self, time: int) -> None:
        """Makes everything before `time` history."""
        before, _, _ = self._place(self.read_time)
        self.read_time = time
        after, _, _ = self._place(time)
        if before != after and before not in self._changed and not self._is_wanted(before):
            self._pages.pop(before, None)

    def _is_wanted(self, page_number: int) -> bool:
        page = self._pages.get(page_number, b"")
        first_unit = self._first_unit
        return any(unit >= first_unit for (unit,) in _TIMES.iter_unpack(page))

    def pending(self) -> Iterator[tuple[int, Slot]]:
        """Yields every moment from `read_time` on at which something is due, in no order."""
        first_unit = self._first_unit
        for page in list(self._pages.values()):
            for unit, first, last, count, _ in SLOT.iter_unpack(page):
                if unit >= first_unit:
                    yield unit * self.precision, Slot(first, last, count)

    def due_between(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields moments from `begin` on and before `end`, and how many messages are due at each; some may be none.

        A page is looked at when its turn has come, so that who iterates may let others work in between.
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

    def take(self) -> "Changes":
        """Returns what has changed since it was last asked, as it is now."""
        assert self._file is not None
        pages = {number: bytes(self._pages[number]) for number in sorted(self._changed)}
        self._changed.clear()
        for number in pages:
            if not self._is_wanted(number):
                del self._pages[number]
        return Changes(self._file, pages)

    def put_back(self, changes: "Changes") -> None:
        """Counts as changed again what could not be written."""
        self._changed.update(number for number in changes.pages if number in self._pages)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _place(self, time: int) -> tuple[int, int, int]:
        unit = time // self.precision
        page_number, number = divmod(unit % self._slots, _PAGE_SLOTS)
        return page_number, number * SLOT.size, unit


class Changes(NamedTuple):
    """Pages of the wheel as they were at one moment. Writing them may be done in a thread."""

    file: File
    pages: dict[int, bytes]

    def write(self) -> None:
        for number, page in self.pages.items():
            self.file.write(number * _PAGE_SIZE, page)
