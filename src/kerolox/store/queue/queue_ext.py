"""What a consume queue has no room for: a tags code, a time and a bit map for each message (enableConsumeQueueExt).

int16  size of the unit        an entry of the queue has the unit's address for its tags code:
int64  tags code               the offset of the unit, below the smallest number that a tags code can be
int64  store time              a size of -1 sends readers on to the next file
int16  size of the bit map
bytes  bit map
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from kerolox.runtime.files import Disk
from kerolox.store.log.segments import Segments, Sync
from kerolox.store.queue.consume_queue import Backlog, ConsumeQueue, Entry

_UNIT = struct.Struct(">hqqh")
_END = struct.pack(">h", -1)
# So much stays free at the end of a file.
_END_SIZE = 4
UNIT_SIZE_MAX = 2**15 - 1

_ADDRESS_BASE = -(2**63)
# Whatever is greater is a tags code, or a time at which a message is due.
ADDRESS_MAX = -(2**31) - 1

# Units are read many at a time, since neighbours are asked for one after the other.
_CHUNK_SIZE = 16 * 1024
_STEP = 10_000


class ExtUnit(NamedTuple):
    tags_code: int
    store_timestamp: int
    bit_map: bytes = b""

    def encode(self) -> bytes:
        size = _UNIT.size + len(self.bit_map)
        return _UNIT.pack(size, self.tags_code, self.store_timestamp, len(self.bit_map)) + self.bit_map


def is_address(tags_code: int) -> bool:
    """Whether the tags code of an entry says where its unit lies."""
    return tags_code <= ADDRESS_MAX


class QueueExt:
    """Units are kept in memory and written behind, since they can be made again from the log."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._pending = bytearray()
        # Up to here units are in the files, from here on in memory.
        self._written_offset = 0
        self._synced_offset = 0
        # Units that were read last, and where they begin.
        self._chunk, self._chunk_offset = b"", 0

    @property
    def end_offset(self) -> int:
        return self._written_offset + len(self._pending)

    @property
    def is_durable(self) -> bool:
        return not self._pending and self._synced_offset == self._written_offset

    def load(self) -> None:
        """Finds the files. Where their last unit ends only the queue can tell, which cuts when it knows it itself."""
        self._segments.load()
        self._written_offset = self._segments.end_offset
        self._synced_offset = 0

    def put(self, unit: ExtUnit) -> int | None:
        """Returns the address of the unit, or None if it is too large to be kept."""
        data = unit.encode() if len(unit.bit_map) <= UNIT_SIZE_MAX - _UNIT.size else b""
        room = self._segments.room_after(self.end_offset)
        if not data or len(data) + _END_SIZE > self._segments.segment_size:
            return None
        if len(data) + _END_SIZE > room:
            self._pending += _END.ljust(room, b"\0")
        offset = self.end_offset
        self._pending += data
        return offset + _ADDRESS_BASE

    def unit(self, address: int) -> ExtUnit | None:
        """Returns the unit at an address, or None if there is none."""
        offset = address - _ADDRESS_BASE
        if not is_address(address) or offset >= self.end_offset:
            return None
        start = offset - self._chunk_offset
        unit = _decode(self._chunk, start) if 0 <= start < len(self._chunk) else None
        if unit is None:
            self._chunk, self._chunk_offset = self._read(offset, _CHUNK_SIZE), offset
            unit = _decode(self._chunk, 0)
        if unit is None:
            # A large one.
            self._chunk = self._read(offset, UNIT_SIZE_MAX)
            unit = _decode(self._chunk, 0)
        return unit

    def let_go(self) -> None:
        """Forgets what was read ahead."""
        self._chunk = b""

    def flush(self) -> None:
        """Writes what is pending to the files; nothing is durable yet. OSError leaves it pending."""
        data, offset = bytes(self._pending), self._written_offset
        for at, piece in _by_file(self._segments, offset, data):
            if at >= self._segments.end_offset:
                self._segments.extend(at)
            self._segments.write(at, piece)
        self._written_offset += len(data)
        self._pending.clear()

    def hold(self) -> Sync:
        """Returns what makes it survive a power cut, in a thread."""
        sync = self._segments.hold(min(self._synced_offset, self._written_offset - 1), self._written_offset)
        self._synced_offset = self._written_offset
        return sync

    def release(self, sync: Sync) -> None:
        self._segments.release(sync)
        if not sync.is_done:
            self.doubt()

    def doubt(self) -> None:
        """Takes nothing for durable any more."""
        self._synced_offset = 0

    def cut_after(self, address: int | None) -> None:
        """Forgets the units after that at an address; all of them if there is none.

        If that unit is not there the next goes to another file, so that no address is given twice.
        """
        unit = None if address is None else self.unit(address)
        end = 0 if address is None else address - _ADDRESS_BASE
        if unit is not None:
            end += _UNIT.size + len(unit.bit_map)
        elif address is not None:
            end = self._segments.start_of(end) + self._segments.segment_size
        elif self._segments.end_offset:
            end = self._segments.first_offset
        self._go_to(end)

    def delete_before(self, address: int) -> None:
        """Removes the files whose units all lie before an address."""
        if is_address(address):
            self._segments.delete_before(min(address - _ADDRESS_BASE, self._written_offset))

    def forget(self) -> None:
        """Closes the files, which belong to the queue no longer."""
        self._segments.forget()

    def _go_to(self, offset: int) -> None:
        self._chunk = b""
        if self._written_offset <= offset <= self.end_offset:
            del self._pending[offset - self._written_offset :]
            return
        self._pending.clear()
        if offset < self._segments.end_offset:
            self._segments.cut(offset)
        elif offset > self._segments.end_offset:
            # What comes next cannot follow the files that are there.
            self._segments.cut(0)
        self._written_offset = offset
        # Of a file that was cut nothing is known to be durable.
        self._synced_offset = min(self._synced_offset, max(self._segments.start_of(offset) - 1, 0))

    def _read(self, offset: int, size: int) -> bytes:
        if offset >= self._written_offset:
            start = offset - self._written_offset
            return bytes(self._pending[start : start + size])
        return self._segments.read(offset, min(size, self._written_offset - offset))


class ExtendedQueue(ConsumeQueue):
    """A consume queue whose entries have units. They are written before the entries that speak of them."""

    __slots__ = ("_disk", "ext")

    def __init__(self, segments: Segments, ext: QueueExt, disk: Disk, backlog: Backlog | None = None) -> None:
        super().__init__(segments, backlog)
        self._disk = disk
        self.ext = ext

    @property
    def is_durable(self) -> bool:
        return super().is_durable and self.ext.is_durable

    def load(self) -> None:
        super().load()
        # After a crash the last entries may speak of units that are lost; so nothing is cut before they are.
        self.ext.load()

    def append_extended(self, queue_offset: int, physical_offset: int, size: int, unit: ExtUnit) -> bool:
        """Enters a record with its unit; False as `append` says."""
        if physical_offset + size <= self.max_physical_offset:
            return False
        address = self.ext.put(unit)
        return self.append(queue_offset, physical_offset, size, unit.tags_code if address is None else address)

    def flush(self) -> None:
        self.ext.flush()
        super().flush()

    def hold(self) -> Sync:
        units = self.ext.hold()
        try:
            entries = super().hold()
        except OSError:
            self.ext.release(units)
            raise
        return Sync([*units.files, *entries.files], self._disk, (*units.directories, *entries.directories))

    def release(self, sync: Sync) -> None:
        super().release(sync)
        if not sync.is_done:
            self.ext.doubt()

    def cut(self, physical_offset: int, is_known: Callable[[int, Entry], bool] | None = None) -> None:
        super().cut(physical_offset, is_known)
        self._cut_ext()
        if not self.is_durable:
            self._backlog.unsynced[self] = None

    def delete_before(self, physical_offset: int) -> None:
        super().delete_before(physical_offset)
        self.delete_units()

    def delete_units(self) -> None:
        """Removes files of units that no entry speaks of any more. May block."""
        first = self.entry(self.min_offset)
        if first is not None:
            self.ext.delete_before(first.tags_code)

    def forget(self) -> None:
        super().forget()
        self.ext.forget()

    def _cut_ext(self) -> None:
        """Ends the units with that of the last entry that has one."""
        first, end = self._first, self.max_offset
        # Without units there may still be entries that speak of some; the last of them shows it.
        step = _STEP if self.ext.end_offset else 1
        while end > first:
            start = max(first, end - step)
            for entry in reversed(list(self.entries(start, end - start))):
                if is_address(entry.tags_code):
                    self.ext.cut_after(entry.tags_code)
                    return
            if not self.ext.end_offset:
                return
            end = start
        self.ext.cut_after(None)


def valid_tags_code(queue: ConsumeQueue, tags_code: int) -> tuple[int | None, ExtUnit | None]:
    """Returns the tags code of an entry and its unit, if it has one; no tags code if its unit cannot be read."""
    if not is_address(tags_code):
        return tags_code, None
    unit = queue.ext.unit(tags_code) if isinstance(queue, ExtendedQueue) else None
    return (None, None) if unit is None else (unit.tags_code, unit)


def _decode(data: bytes, at: int) -> ExtUnit | None:
    if at + _UNIT.size > len(data):
        return None
    size, tags_code, store_timestamp, bits_size = _UNIT.unpack_from(data, at)
    # As Java reads it: a size of its own is said for the bit map, which may be 0 or less if there is none.
    end = at + _UNIT.size + max(bits_size, 0)
    if size != _UNIT.size + max(bits_size, 0) or end > len(data):
        return None
    return ExtUnit(tags_code, store_timestamp, data[at + _UNIT.size : end])


def _by_file(segments: Segments, offset: int, data: bytes) -> list[tuple[int, bytes]]:
    """Cuts bytes where the files end."""
    pieces, start = [], 0
    while start < len(data):
        piece = data[start : start + segments.room_after(offset + start)]
        pieces.append((offset + start, piece))
        start += len(piece)
    return pieces
