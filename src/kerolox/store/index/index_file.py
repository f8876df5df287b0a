"""One file of the key index: a hash table on disk from key hashes to physical offsets (IndexFile)."""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kerolox.runtime.files import File
from kerolox.store.errors import StoreDamaged, SyncFailed
from kerolox.store.index.layout import ENTRY, HEADER, SECONDS_MAX, SLOT, IndexHeader, IndexShape
from kerolox.store.log.fsync import sync_directory, sync_file
from kerolox.store.log.segments import OpenFiles

if TYPE_CHECKING:
    from kerolox.store.index.key_arrays import KeyArrays

_pack_entry = ENTRY.pack
# Slots are written in pages, and up to _RUN_PAGES adjacent pages with one write.
_PAGE_SLOTS = 1024
_RUN_PAGES = 256
# Entries read together when following a chain backwards: the next one is often shortly before, and reading it is free.
_BLOCK_ENTRIES = 4096 // ENTRY.size
_SCAN_ENTRIES = 65536

# Hash, physical offset and timestamp of an entry.
ChainEntry = tuple[int, int, int]


class WrongShape(StoreDamaged):
    """The file has the wrong size: the settings were changed, or it is not an index file."""


class IndexFile:
    """New entries stay in memory and are written later: they can be rebuilt from the log.

    The header is written last, and only after the entries it counts are durable. After a crash it tells how many
    entries can be trusted; the slots may be older or newer than the header, and `restore` rebuilds them.

    Look-ups read through `files`, so that `ColdReads` applies to them, and a thread may delete the file meanwhile.
    Everything else uses the file's own descriptor.
    """

    def __init__(self, files: OpenFiles, file: File, shape: IndexShape, header: IndexHeader, *, is_named: bool) -> None:
        self.path = file.path
        self.header = header
        self._disk = files.disk
        self._files = files
        self._file = file
        self._shape = shape
        # Whether the directory entry is known to be durable.
        self._is_named = is_named
        # All slots while the file grows, unsigned and in native byte order, so that one comparison finds invalid ones;
        # for other files they are read from the disk.
        self._slots: memoryview | None = None
        self._pages_dirty: set[int] = set()
        # Entries that are only in memory, and the number of the first one.
        self.pending = bytearray()
        self._first_pending = header.next_entry
        self._flush: FileFlush | None = None
        self._header_flushed = replace(header)
        # The failed sync after which the state of the file on disk is unknown.
        self.failure: SyncFailed | None = None
        self._is_detached = False

    @classmethod
    def open(cls, files: OpenFiles, path: Path, shape: IndexShape) -> Self:
        """Open a file for reading; WrongShape or StoreDamaged if it cannot be an index of this shape."""
        file = files.disk.open(path)
        try:
            size = file.size()
            if size != shape.file_size:
                raise WrongShape(
                    f"{path} has {size} bytes, but maxHashSlotNum={shape.slots} and "
                    f"maxIndexNum={shape.entries} make {shape.file_size}"
                )
            header = IndexHeader.decode(file.read(0, HEADER.size))
            if not _is_plausible(header, shape):
                raise StoreDamaged(f"{path} has an impossible header: {header}")
        except BaseException:
            file.close()
            raise
        return cls(files, file, shape, header, is_named=True)

    @classmethod
    def create(cls, files: OpenFiles, path: Path, shape: IndexShape, header: IndexHeader) -> Self:
        """Create an empty file, ready to grow; OSError, and no file, if there is no disk space for its slots."""
        file = files.disk.open(path, create=True)
        try:
            # Reserve space for the slots, which are written in random order; entries take space as they are written.
            file.allocate(shape.entries_position)
            file.truncate(shape.file_size)
            file.write(0, header.encode())
        except OSError:
            file.close()
            files.disk.remove(path)
            raise
        index_file = cls(files, file, shape, header, is_named=False)
        index_file._slots = _no_slots(shape)
        return index_file

    @property
    def durable_header(self) -> IndexHeader:
        """The header on disk."""
        return self._header_flushed

    @property
    def is_full(self) -> bool:
        return self.header.next_entry >= self._shape.entries

    @property
    def is_growing(self) -> bool:
        """Whether the slots are in memory, so that keys can be put."""
        return self._slots is not None

    def grow(self) -> None:
        """Load the slots into memory, so that keys can be put."""
        if self._slots is not None:
            return
        slots = _no_slots(self._shape)
        size = _RUN_PAGES * _PAGE_SLOTS
        blank = bytes(size * SLOT.size)
        for first in range(0, self._shape.slots, size):
            count = min(size, self._shape.slots - first)
            data = self._file.read(HEADER.size + first * SLOT.size, count * SLOT.size)
            if len(data) < count * SLOT.size:
                raise StoreDamaged(f"{self.path} is truncated within its slots")
            # Do not copy zeros: memory pages that are never touched are not allocated.
            if data != blank[: len(data)]:
                slots[first : first + count] = memoryview(_swapped(data)).cast("I")
        self._slots = slots

    def put(self, hashes: Sequence[int], physical_offset: int, store_timestamp: int) -> int:
        """Add the keys of a record, as many as fit, and return how many. Physical offsets must not decrease."""
        header, slots = self.header, self._slots
        number = header.next_entry
        if len(hashes) != 1 or header.is_empty or number >= self._shape.entries:
            return self.put_all(hashes, [physical_offset] * len(hashes), [store_timestamp] * len(hashes))
        assert slots is not None
        assert physical_offset >= header.end_physical_offset
        key_hash = hashes[0]
        slot = key_hash % self._shape.slots
        previous = slots[slot]
        if previous >= number:
            previous = 0
        header.slots_used += not previous
        slots[slot] = number
        self._pages_dirty.add(slot // _PAGE_SLOTS)
        seconds = _seconds(header.begin_timestamp, store_timestamp)
        self.pending += _pack_entry(key_hash, physical_offset, seconds, previous)
        header.next_entry = number + 1
        header.end_physical_offset, header.end_timestamp = physical_offset, store_timestamp
        return 1

    def put_all(self, hashes: Sequence[int], offsets: Sequence[int], timestamps: Sequence[int]) -> int:
        """Add keys of many records, as `put`: hash, physical offset and store timestamp of each key."""
        header = self.header
        slots = self._slots
        assert slots is not None
        count = min(len(hashes), self._shape.entries - header.next_entry)
        if count <= 0:
            return 0
        if count < len(hashes):
            hashes, offsets, timestamps = hashes[:count], offsets[:count], timestamps[:count]
        assert offsets[0] >= header.end_physical_offset
        slot_count = self._shape.slots
        previous: list[int] = []
        note = previous.append
        for number, key_hash in enumerate(hashes, header.next_entry):
            slot = key_hash % slot_count
            before = slots[slot]
            note(before if before < number else 0)
            slots[slot] = number
        # If all pages are dirty, or most are about to be, skip computing them one by one.
        if len(self._pages_dirty) * _PAGE_SLOTS < slot_count:
            pages = range(-(-slot_count // _PAGE_SLOTS))
            self._pages_dirty.update(
                pages if count > len(pages) else [key_hash % slot_count // _PAGE_SLOTS for key_hash in hashes]
            )
        seconds = self._seconds(offsets, timestamps)
        self.pending += b"".join(map(_pack_entry, hashes, offsets, seconds, previous))
        header.slots_used += previous.count(0)
        header.next_entry += count
        header.end_physical_offset, header.end_timestamp = offsets[-1], timestamps[-1]
        return count

    def put_arrays(self, arrays: "KeyArrays") -> int:
        """Add keys of many records, as `put`, in a time that hardly depends on their number."""
        header, slots = self.header, self._slots
        count = min(len(arrays), self._shape.entries - header.next_entry)
        if count <= 0:
            return 0
        if header.is_empty:
            # The first entry of a file sets the start of its header.
            key_hash, physical_offset, store_timestamp = arrays.key(0)
            self.put_all([key_hash], [physical_offset], [store_timestamp])
            return 1 + self.put_arrays(arrays.part(1, count))
        assert slots is not None
        assert arrays.key(0)[1] >= header.end_physical_offset
        arrays = arrays.part(0, count)
        links = arrays.link(slots, header.next_entry)
        if len(self._pages_dirty) * _PAGE_SLOTS < self._shape.slots:
            self._pages_dirty.update(links.pages(_PAGE_SLOTS))
        self.pending += arrays.packed(header.begin_timestamp, links)
        header.slots_used += links.new_slots
        header.next_entry += count
        _, header.end_physical_offset, header.end_timestamp = arrays.key(count - 1)
        return count

    def _seconds(self, offsets: Sequence[int], timestamps: Sequence[int]) -> list[int]:
        """Return the times of entries as stored; for the first entry of a file also set the start of its header."""
        header = self.header
        first: list[int] = []
        if header.is_empty:
            # As in Java, the first entry counts from the end of the previous file, if there is one.
            first = [_seconds(header.begin_timestamp, timestamps[0])]
            header.begin_physical_offset, header.begin_timestamp = offsets[0], timestamps[0]
        elif timestamps.count(timestamps[0]) == len(timestamps):
            # Messages appended together have one timestamp.
            return [_seconds(header.begin_timestamp, timestamps[0])] * len(timestamps)
        # They are in order already, or nearly.
        ordered = sorted(timestamps)
        lowest, highest = (_seconds(header.begin_timestamp, timestamp) for timestamp in (ordered[0], ordered[-1]))
        if lowest == highest:
            return first + [lowest] * (len(timestamps) - len(first))
        known = {timestamp: _seconds(header.begin_timestamp, timestamp) for timestamp in set(timestamps)}
        return [*first, *map(known.__getitem__, timestamps[len(first) :])]

    def has(self, key_hash: int, physical_offset: int) -> bool:
        """Return whether the file has this entry; only entries at or after the offset are examined."""
        for entry_hash, entry_offset, _ in self._chain(key_hash):
            if entry_offset < physical_offset:
                return False
            if entry_hash == key_hash and entry_offset == physical_offset:
                return True
        return False

    def _chain(self, key_hash: int) -> Iterator[ChainEntry]:
        """Yield the entries of a slot, newest first."""
        number = self.newest(key_hash)
        while number:
            entries, number = self.follow(number)
            yield from entries

    def newest(self, key_hash: int) -> int:
        """Return the number of the newest entry in the slot of a hash; 0 if there is none."""
        slot = key_hash % self._shape.slots
        if self._slots is not None:
            return int(self._slots[slot])
        if self._is_detached:
            return 0
        data = self._files.read(self.path, HEADER.size + slot * SLOT.size, SLOT.size)
        return int(SLOT.unpack(data)[0]) if len(data) == SLOT.size else 0

    def follow(self, number: int) -> tuple[list[ChainEntry], int]:
        """Return some entries of a chain, from entry `number` on, and the number of the next; 0 at its end.

        At most one block is read, and at most its entries are returned, so that the caller can let other tasks run.
        """
        entries: list[ChainEntry] = []
        if self._is_detached or not 0 < number < self.header.next_entry:
            return entries, 0
        begin_timestamp = self.header.begin_timestamp
        block: bytes | bytearray
        if number >= self._first_pending:
            first, block = self._first_pending, self.pending
        else:
            first = max(1, number - _BLOCK_ENTRIES + 1)
            size = (number + 1 - first) * ENTRY.size
            block = self._files.read(self.path, self._shape.entries_position + first * ENTRY.size, size)
            if len(block) < size:
                return entries, 0
        while number >= first and len(entries) < _BLOCK_ENTRIES:
            entry_hash, physical_offset, seconds, previous = ENTRY.unpack_from(block, (number - first) * ENTRY.size)
            if seconds < 0:
                return entries, 0
            entries.append((entry_hash, physical_offset, begin_timestamp + seconds * 1000))
            # Entry numbers must decrease along a chain; a damaged chain ends here instead of looping.
            if not 0 < previous < number:
                return entries, 0
            number = previous
        return entries, number

    def flush(self) -> "FileFlush | None":
        """Write the entries and return a FileFlush that makes the file durable; None if it is durable.

        The previous FileFlush must have ended.
        """
        self.write_entries()
        if self._flush is not None and not self._flush.is_done:
            self._pages_dirty |= self._flush.pages
        elif not self._pages_dirty and self.header == self._header_flushed:
            return None
        pages = frozenset(self._pages_dirty)
        self._flush = FileFlush(self, replace(self.header), pages, list(self._copies(pages)))
        self._pages_dirty = set()
        return self._flush

    def _copies(self, pages: frozenset[int]) -> Iterator[tuple[int, bytes]]:
        """Yield start and copy of each run of slots; uncopied, the slots on disk could become newer than the header."""
        slots = self._slots
        assert slots is not None
        for first_page, end_page in _runs(pages):
            first = first_page * _PAGE_SLOTS
            yield first, slots[first : min(end_page * _PAGE_SLOTS, self._shape.slots)].tobytes()

    def write_entries(self) -> None:
        """Write the pending entries; on OSError they stay pending."""
        if self.pending:
            position = self._shape.entries_position + self._first_pending * ENTRY.size
            self._file.write(position, bytes(self.pending))
            self._first_pending += len(self.pending) // ENTRY.size
            self.pending = bytearray()

    def sync_entries(self) -> None:
        """Make the written entries durable; SyncFailed, which is final, if they may not be."""
        try:
            if not self._is_named:
                sync_directory(self._disk, self.path.parent)
                self._is_named = True
            sync_file(self._file)
        except SyncFailed as failure:
            self.failure = failure
            raise

    def write_head(self, header: IndexHeader, slots: Iterable[tuple[int, bytes]]) -> None:
        """Write slots and the header that matches them and make both durable; SyncFailed as in `sync_entries`."""
        for first, data in slots:
            self._file.write(HEADER.size + first * SLOT.size, _swapped(data))
        self._file.write(0, header.encode())
        try:
            sync_file(self._file)
        except SyncFailed as failure:
            self.failure = failure
            raise
        self._header_flushed = header

    def release_slots(self) -> bool:
        """Free the memory of the slots if everything is flushed; return whether it was."""
        if self._pages_dirty or self.pending or self.header != self._header_flushed:
            return False
        self._slots = None
        return True

    def restore(self) -> None:
        """Rebuild the slots from the entries; StoreDamaged if the entries do not match the header."""
        self.write_entries()
        slots = _no_slots(self._shape)
        slot_count = self._shape.slots
        slots_used = 0
        offset = self.header.begin_physical_offset
        number = 1
        for data in self._written():
            for key_hash, physical_offset, seconds, previous in ENTRY.iter_unpack(data):
                slot = key_hash % slot_count
                # An all-zero entry is a page that never reached the disk.
                if (
                    previous != slots[slot]
                    or physical_offset < offset
                    or key_hash < 0
                    or seconds < 0
                    or not (key_hash or physical_offset)
                ):
                    raise StoreDamaged(f"entry {number} of {self.path} does not follow from those before it")
                if not previous:
                    slots_used += 1
                slots[slot] = number
                offset = physical_offset
                number += 1
        if number != self.header.next_entry or offset != self.header.end_physical_offset:
            raise StoreDamaged(f"the entries of {self.path} do not match its header: {self.header}")
        self.header.slots_used = slots_used
        self._slots = slots
        self._pages_dirty = self._differing_pages(slots)

    def _differing_pages(self, slots: memoryview) -> set[int]:
        """Return the pages of slots that differ from those on disk."""
        differing: set[int] = set()
        size = _RUN_PAGES * _PAGE_SLOTS
        for start in range(0, self._shape.slots, size):
            count = min(size, self._shape.slots - start)
            data = self._file.read(HEADER.size + start * SLOT.size, count * SLOT.size)
            expected = _swapped(slots[start : start + count].tobytes())
            if data != expected:
                step = _PAGE_SLOTS * SLOT.size
                differing.update(
                    (start // _PAGE_SLOTS) + at // step
                    for at in range(0, len(expected), step)
                    if data[at : at + step] != expected[at : at + step]
                )
        return differing

    def cut(self, physical_offset: int) -> None:
        """Remove the entries at or after a physical offset; there must be some before it."""
        self.write_entries()
        header = self.header
        low, high = 1, header.next_entry
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[1] < physical_offset:
                low = middle + 1
            else:
                high = middle
        assert low > 1
        header.next_entry = self._first_pending = low
        _, header.end_physical_offset, seconds, _ = self._entry(low - 1)
        header.end_timestamp = header.begin_timestamp + (seconds * 1000 if low > 2 else 0)
        self.restore()

    def detach(self) -> None:
        """End look-ups in this file, before it is closed or deleted, possibly in a thread."""
        if not self._is_detached:
            self._is_detached = True
            self._files.forget(self.path)

    def close(self) -> None:
        self.detach()
        self._file.close()

    def remove(self) -> None:
        self.close()
        self._disk.remove(self.path)

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        data = self._read_entries(number, number + 1)
        if not data:
            raise StoreDamaged(f"{self.path} is truncated before its entry {number}")
        key_hash, physical_offset, seconds, previous = ENTRY.unpack(data)
        return key_hash, physical_offset, seconds, previous

    def _written(self) -> Iterator[bytes]:
        for first in range(1, self._first_pending, _SCAN_ENTRIES):
            yield self._read_entries(first, min(first + _SCAN_ENTRIES, self._first_pending))

    def _read_entries(self, first: int, end: int) -> bytes:
        """Return written entries, all of the range or none."""
        size = (end - first) * ENTRY.size
        data = self._file.read(self._shape.entries_position + first * ENTRY.size, size)
        return data if len(data) == size else b""


class FileFlush:
    """Makes a file durable after its entries were written. It may run in a thread while more keys are put.

    OSError in either step means that the next flush repeats it; SyncFailed is final.
    """

    def __init__(
        self, file: IndexFile, header: IndexHeader, pages: frozenset[int], slots: list[tuple[int, bytes]]
    ) -> None:
        self._file = file
        self._header = header
        self._slots = slots
        self.pages = pages
        self.is_done = False

    def begin(self) -> None:
        """Make the entries durable, to which nothing on disk refers yet."""
        if self._file.failure is not None:
            raise self._file.failure
        self._file.sync_entries()

    def end(self) -> None:
        """Write slots and header, one right after the other, and make them durable.

        Java trusts both as a killed process left them, so the time in between must be short. We rebuild the slots after
        an unclean stop.
        """
        self._file.write_head(self._header, self._slots)
        self._slots = []
        self.is_done = True

    def run(self) -> None:
        self.begin()
        self.end()


def _seconds(begin_timestamp: int, timestamp: int) -> int:
    """Return the time of an entry as stored: seconds since the first entry."""
    if not 0 < begin_timestamp < timestamp:
        return 0
    return min((timestamp - begin_timestamp) // 1000, SECONDS_MAX)


def _is_plausible(header: IndexHeader, shape: IndexShape) -> bool:
    return (
        1 <= header.next_entry <= shape.entries
        and 0 <= header.begin_physical_offset <= header.end_physical_offset
        and header.slots_used >= 0
    )


def _no_slots(shape: IndexShape) -> memoryview:
    return memoryview(bytearray(shape.slots * SLOT.size)).cast("I")


def _swapped(data: bytes) -> bytes:
    """Convert slots between native and big-endian byte order."""
    if sys.byteorder == "big":
        return data
    slots = array("i", data)
    slots.byteswap()
    return slots.tobytes()


def _runs(pages: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield first and end of runs of adjacent pages, at most _RUN_PAGES long."""
    first = end = -1
    for page in sorted(pages):
        if page != end or end - first >= _RUN_PAGES:
            if first >= 0:
                yield first, end
            first = page
        end = page + 1
    if first >= 0:
        yield first, end
