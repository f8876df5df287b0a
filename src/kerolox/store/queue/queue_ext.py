"""Extra data of queue entries: tags code, store time and filter bit map (ConsumeQueueExt, enableConsumeQueueExt).

int16  size of the unit        the tags code of the queue entry is the unit's address:
int64  tags code               its offset plus Long.MIN_VALUE, which is below any tags code
int64  store time              a size of -1 means: continue in the next file
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
# Bytes kept free at the end of a file for the end marker.
_END_SIZE = 4
UNIT_SIZE_MAX = 2**15 - 1

_ADDRESS_BASE = -(2**63)
# Greater numbers are tags codes, or delivery times of delayed messages.
ADDRESS_MAX = -(2**31) - 1

# Bytes read together, because adjacent units are read one after the other.
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
    """Whether the tags code of an entry is the address of its unit."""
    return tags_code <= ADDRESS_MAX


class QueueExt:
    """The units of one queue. New ones stay in memory and are written later: they can be rebuilt from the log."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._pending = bytearray()
        # Units before this offset are in the files, the others in `_pending`.
        self._written_offset = 0
        self._synced_offset = 0
        # The chunk read last and its offset.
        self._chunk, self._chunk_offset = b"", 0

    @property
    def end_offset(self) -> int:
        return self._written_offset + len(self._pending)

    @property
    def is_durable(self) -> bool:
        return not self._pending and self._synced_offset == self._written_offset

    def load(self) -> None:
        """Find the files. Only the queue knows the last unit; it calls `cut_after` when it knows its own last entry."""
        self._segments.load()
        self._written_offset = self._segments.end_offset
        self._synced_offset = 0

    def put(self, unit: ExtUnit) -> int | None:
        """Append a unit and return its address, or None if it is too large."""
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
        """Return the unit at an address, or None if there is none."""
        offset = address - _ADDRESS_BASE
        if not is_address(address) or offset >= self.end_offset:
            return None
        start = offset - self._chunk_offset
        unit = _decode(self._chunk, start) if 0 <= start < len(self._chunk) else None
        if unit is None:
            self._chunk, self._chunk_offset = self._read(offset, _CHUNK_SIZE), offset
            unit = _decode(self._chunk, 0)
        if unit is None:
            # The unit is larger than a chunk.
            self._chunk = self._read(offset, UNIT_SIZE_MAX)
            unit = _decode(self._chunk, 0)
        return unit

    def drop_cache(self) -> None:
        """Drop the chunk read last."""
        self._chunk = b""

    def flush(self) -> None:
        """Write the pending units to the files, without a sync; on OSError they stay pending."""
        data, offset = bytes(self._pending), self._written_offset
        for at, piece in _by_file(self._segments, offset, data):
            if at >= self._segments.end_offset:
                self._segments.extend(at)
            self._segments.write(at, piece)
        self._written_offset += len(data)
        self._pending.clear()

    def prepare_sync(self) -> Sync:
        """Return a Sync of the flushed units that can run in a thread; pass it to `release` afterwards."""
        sync = self._segments.prepare_sync(min(self._synced_offset, self._written_offset - 1), self._written_offset)
        self._synced_offset = self._written_offset
        return sync

    def release(self, sync: Sync) -> None:
        self._segments.release(sync)
        if not sync.is_done:
            self.mark_unsynced()

    def mark_unsynced(self) -> None:
        """Treat all units as not durable, after a failed sync."""
        self._synced_offset = 0

    def cut_after(self, address: int | None) -> None:
        """Remove the units after the one at `address`; all units if it is None.

        If that unit does not exist, the next one goes to the next file, so that no address is used twice.
        """
        unit = None if address is None else self.unit(address)
        end = 0 if address is None else address - _ADDRESS_BASE
        if unit is not None:
            end += _UNIT.size + len(unit.bit_map)
        elif address is not None:
            end = self._segments.start_of(end) + self._segments.segment_size
        elif self._segments.end_offset:
            end = self._segments.first_offset
        self._truncate(end)

    def reset(self) -> None:
        """Remove all units and files."""
        self._chunk = b""
        self._pending.clear()
        self._segments.discard()
        self._written_offset = self._synced_offset = 0

    def delete_before(self, address: int) -> None:
        """Remove the files whose units are all before an address."""
        if is_address(address):
            self._segments.delete_before(min(address - _ADDRESS_BASE, self._written_offset))

    def forget(self) -> None:
        """Close the files, which no longer belong to the queue."""
        self._segments.forget()

    def _truncate(self, offset: int) -> None:
        self._chunk = b""
        if self._written_offset <= offset <= self.end_offset:
            del self._pending[offset - self._written_offset :]
            return
        self._pending.clear()
        if offset < self._segments.end_offset:
            self._segments.cut(offset)
        elif offset > self._segments.end_offset:
            # The next unit is not adjacent to the existing files.
            self._segments.cut(0)
        self._written_offset = offset
        # The truncated file must be synced as a whole.
        self._synced_offset = min(self._synced_offset, max(self._segments.start_of(offset) - 1, 0))

    def _read(self, offset: int, size: int) -> bytes:
        if offset >= self._written_offset:
            start = offset - self._written_offset
            return bytes(self._pending[start : start + size])
        return self._segments.read(offset, min(size, self._written_offset - offset))


class ExtendedQueue(ConsumeQueue):
    """A consume queue whose entries have units. Units are written before the entries that refer to them."""

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
        # Nothing is cut here: after a crash the last entries may refer to lost units, and they are cut first.
        self.ext.load()

    def append_extended(self, queue_offset: int, physical_offset: int, size: int, unit: ExtUnit) -> bool:
        """Add the entry and the unit of a record; False as in `append`."""
        if physical_offset + size <= self.max_physical_offset:
            return False
        address = self.ext.put(unit)
        return self.append(queue_offset, physical_offset, size, unit.tags_code if address is None else address)

    def flush(self) -> None:
        self.ext.flush()
        super().flush()

    def prepare_sync(self) -> Sync:
        units = self.ext.prepare_sync()
        try:
            entries = super().prepare_sync()
        except OSError:
            self.ext.release(units)
            raise
        return Sync([*units.files, *entries.files], self._disk, (*units.directories, *entries.directories))

    def release(self, sync: Sync) -> None:
        super().release(sync)
        if not sync.is_done:
            self.ext.mark_unsynced()

    def cut(self, physical_offset: int, is_known: Callable[[int, Entry], bool] | None = None) -> None:
        super().cut(physical_offset, is_known)
        self._cut_ext()
        if not self.is_durable:
            self._backlog.unsynced[self] = None

    def reset(self) -> None:
        super().reset()
        self.ext.reset()

    def delete_before(self, physical_offset: int) -> None:
        super().delete_before(physical_offset)
        self.delete_units()

    def delete_units(self) -> None:
        """Remove files of units that no entry refers to any more. Blocks."""
        first = self.entry(self.min_offset)
        if first is not None:
            self.ext.delete_before(first.tags_code)

    def forget(self) -> None:
        super().forget()
        self.ext.forget()

    def _cut_ext(self) -> None:
        """Remove the units after that of the last entry that has one."""
        first, end = self.first_offset, self.max_offset
        # Without any unit in the files it is enough to look at the last entry.
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
    """Return the tags code of an entry and its unit, None if it has none; both None if its unit cannot be read."""
    if not is_address(tags_code):
        return tags_code, None
    unit = queue.ext.unit(tags_code) if isinstance(queue, ExtendedQueue) else None
    return (None, None) if unit is None else (unit.tags_code, unit)


def _decode(data: bytes, at: int) -> ExtUnit | None:
    if at + _UNIT.size > len(data):
        return None
    size, tags_code, store_timestamp, bits_size = _UNIT.unpack_from(data, at)
    # As in Java, the size of the bit map may be 0 or negative if there is none.
    end = at + _UNIT.size + max(bits_size, 0)
    if size != _UNIT.size + max(bits_size, 0) or end > len(data):
        return None
    return ExtUnit(tags_code, store_timestamp, data[at + _UNIT.size : end])


def _by_file(segments: Segments, offset: int, data: bytes) -> list[tuple[int, bytes]]:
    """Split bytes at the ends of files; return pairs of offset and piece."""
    pieces, start = [], 0
    while start < len(data):
        piece = data[start : start + segments.room_after(offset + start)]
        pieces.append((offset + start, piece))
        start += len(piece)
    return pieces
