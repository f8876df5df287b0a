"""A consume queue: for each message of one queue, its position in the commit log (ConsumeQueue).

int64  physical offset        entry n is at byte 20 * n
int32  size of the record     space never written is zero
int64  tags code
"""

import logging
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap, takewhile
from operator import attrgetter
from typing import Final, NamedTuple

from kerolox.message.records.layout import RECORD_SIZE_MIN
from kerolox.store.log.segments import Removal, Segments, Sync

log = logging.getLogger(__name__)

ENTRY = struct.Struct(">qiq")
ENTRY_SIZE: Final = ENTRY.size
pack_entry = ENTRY.pack
FILLER_SIZE: Final = 0x7FFFFFFF
# Entries read to find the end of a queue without a binary search; most queues have fewer.
_FEW = 64
# More than the entries in a disk sector, which is written completely or not at all.
_SECTOR_ENTRIES_MAX = 32
# Read-ahead: a read of at least _AHEAD_SIZE_MIN bytes is extended to _AHEAD_SIZE, and at most this many queues keep the
# result.
_AHEAD_SIZE = 4096
_AHEAD_SIZE_MIN = 8 * ENTRY_SIZE
_AHEAD_QUEUES_MAX = 1024
# Placeholder for an entry whose record is missing, as Java writes it (ConsumeQueue.fillPreBlank).
FILLER = pack_entry(0, FILLER_SIZE, 0)


class Entry(NamedTuple):
    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_valid(self) -> bool:
        return self.physical_offset >= 0 and self.size > 0

    @property
    def is_filler(self) -> bool:
        return self.size == FILLER_SIZE


_is_valid = attrgetter("is_valid")


class Backlog:
    """The queues that have something to write or sync, so that idle queues cost nothing."""

    __slots__ = ("_ahead", "entries", "gaps", "unsynced", "unwritten", "version")

    def __init__(self) -> None:
        # Queues with read-ahead data, most recent last.
        self._ahead: OrderedDict[ConsumeQueue, None] = OrderedDict()
        # Queues with entries that are only in memory, and the total number of these entries.
        self.unwritten: dict[ConsumeQueue, None] = {}
        self.entries = 0
        # Queues with written entries that are not durable yet.
        self.unsynced: dict[ConsumeQueue, None] = {}
        # Queues that continue after missing entries → end of the last record before the first gap.
        self.gaps: dict[ConsumeQueue, int] = {}
        # Changes when a queue is added or removed, or loses its first file.
        self.version = 0

    def read_ahead(self, queue: "ConsumeQueue") -> None:
        """Note that a queue has read-ahead data; beyond _AHEAD_QUEUES_MAX the least recent queue drops its own."""
        self._ahead[queue] = None
        self._ahead.move_to_end(queue)
        if len(self._ahead) > _AHEAD_QUEUES_MAX:
            self._ahead.popitem(last=False)[0].drop_read_ahead()

    def forget(self, queue: "ConsumeQueue") -> None:
        """Drop all pending work of a queue, for example because it is deleted."""
        self._ahead.pop(queue, None)
        self.unsynced.pop(queue, None)
        self.gaps.pop(queue, None)
        if self.unwritten.pop(queue, 0) is None:
            self.entries -= queue.pending_count


class ConsumeQueue:
    """Entries of one queue. New ones stay in memory and are written later: they can be rebuilt from the log."""

    __slots__ = (
        "_ahead",
        "_ahead_offset",
        "_backlog",
        "_checked",
        "_pending",
        "_segments",
        "_synced_offset",
        "_written_offset",
        "max_physical_offset",
        "min_offset",
        "trusted_offset",
    )

    def __init__(self, segments: Segments, backlog: Backlog | None = None) -> None:
        self._segments = segments
        self._backlog = backlog or Backlog()
        self._pending = bytearray()
        # Read-ahead data and its byte offset: a consumer that reads some entries soon reads the next ones.
        self._ahead, self._ahead_offset = b"", 0
        # In bytes: entries before this offset are in the files, the others in `_pending`.
        self._written_offset = 0
        # In bytes: entries before this offset are durable.
        self._synced_offset = 0
        # The first entry whose record is still in the log.
        self.min_offset = 0
        # End of the last record that has an entry; a record that ends before it is not added again.
        self.max_physical_offset = 0
        # Entries from here on were written or verified by this process; earlier ones may have been damaged on disk.
        self.trusted_offset = 0
        # A range of the earlier ones that was compared with the log.
        self._checked = (0, 0)

    @property
    def max_offset(self) -> int:
        """Queue offset of the next entry."""
        return (self._written_offset + len(self._pending)) // ENTRY_SIZE

    @property
    def pending_count(self) -> int:
        """Number of entries that are only in memory."""
        return len(self._pending) // ENTRY_SIZE

    @property
    def unsynced_size(self) -> int:
        """Bytes written since the last sync; too many after a failed sync."""
        return self._written_offset - self._synced_offset

    @property
    def first_offset(self) -> int:
        """Queue offset at which the files begin, whether or not the log still has the record."""
        has_files = self._segments.end_offset > 0
        return (self._segments.first_offset if has_files else self._written_offset) // ENTRY_SIZE

    @property
    def is_durable(self) -> bool:
        """Whether all entries are durable."""
        return not self._pending and self._synced_offset == self._written_offset

    def load(self) -> None:
        """Find the files and the last entry in them."""
        self._segments.load()
        first = self._segments.first_offset // ENTRY_SIZE
        end = self._segments.end_offset // ENTRY_SIZE
        self._written_offset = end * ENTRY_SIZE
        few = self._few(first)
        if few is None:
            end = self._first_where(lambda _, entry: not entry.is_valid, first, end)
        else:
            end = first + len(few)
        self._written_offset = self._synced_offset = end * ENTRY_SIZE
        self.trusted_offset = end
        # The read-ahead data has zeros where entries will be added.
        self.drop_read_ahead()
        self.min_offset = first
        if few is None:
            self._update_max_physical_offset()
        elif few and not few[-1].is_filler:
            self.max_physical_offset = few[-1].physical_offset + few[-1].size

    def _few(self, first: int) -> list[Entry] | None:
        """Return all entries if they are fewer than `_FEW`, otherwise None."""
        data = self.read(first, _FEW)
        entries = list(takewhile(_is_valid, map(Entry._make, ENTRY.iter_unpack(data))))
        return entries if len(entries) * ENTRY_SIZE < len(data) or not data else None

    def append(self, queue_offset: int, physical_offset: int, size: int, tags_code: int) -> bool:
        """Add the entry of a record; False if it was added before or its queue offset is impossible."""
        end = physical_offset + size
        if end <= self.max_physical_offset:
            return False
        if queue_offset * ENTRY_SIZE != self._written_offset + len(self._pending):
            if not self._is_plausible(queue_offset, physical_offset):
                next_offset = self.max_offset
                log.error("record at %d: queue offset %d, expected %d", physical_offset, queue_offset, next_offset)
                return False
            self._seek(queue_offset)
        backlog = self._backlog
        if not self._pending:
            backlog.unwritten[self] = None
        backlog.entries += 1
        self._pending += pack_entry(physical_offset, size, tags_code)
        self.max_physical_offset = end
        return True

    def append_all(self, queue_offsets: list[int], entries: list[bytes]) -> None:
        """Add packed entries in log order, as `append` would one by one."""
        start = queue_offsets[0]
        physical_offset, size, _ = ENTRY.unpack(entries[0])
        if (
            start * ENTRY_SIZE != self._written_offset + len(self._pending)
            or physical_offset + size <= self.max_physical_offset
            or queue_offsets != list(range(start, start + len(entries)))
        ):
            for queue_offset, entry in zip(queue_offsets, entries, strict=True):
                self.append(queue_offset, *ENTRY.unpack(entry))
            return
        physical_offset, size, _ = ENTRY.unpack(entries[-1])
        self._add(b"".join(entries), physical_offset + size)

    def append_run(self, queue_offset: int, entries: Sequence[tuple[int, int, int]]) -> None:
        """Add entries (physical offset, size, tags code) with consecutive queue offsets."""
        physical_offset, size, _ = entries[0]
        if (
            queue_offset * ENTRY_SIZE != self._written_offset + len(self._pending)
            or physical_offset + size <= self.max_physical_offset
        ):
            for number, entry in enumerate(entries, queue_offset):
                self.append(number, *entry)
            return
        physical_offset, size, _ = entries[-1]
        self._add(b"".join(starmap(pack_entry, entries)), physical_offset + size)

    def _add(self, data: bytes, end_physical_offset: int) -> None:
        """Add packed entries that follow the last one."""
        if not self._pending:
            self._backlog.unwritten[self] = None
        self._backlog.entries += len(data) // ENTRY_SIZE
        self._pending += data
        self.max_physical_offset = end_physical_offset

    def entry(self, queue_offset: int) -> Entry | None:
        """Return the entry at `queue_offset`, or None if there is none."""
        data = self.read(queue_offset, 1)
        return Entry._make(ENTRY.unpack(data)) if data else None

    def read(self, queue_offset: int, count: int) -> bytes:
        """Return the bytes of at most `count` entries, not beyond the end of one file."""
        start = queue_offset * ENTRY_SIZE
        size = count * ENTRY_SIZE
        if start >= self._written_offset:
            start -= self._written_offset
            return bytes(self._pending[start : start + size])
        at = start - self._ahead_offset
        if 0 <= at <= len(self._ahead) - size:
            return self._ahead[at : at + size]
        size = min(size, self._written_offset - start)
        if not _AHEAD_SIZE_MIN <= size <= _AHEAD_SIZE:
            return self._segments.read(start, size)
        data = self._segments.read(start, min(_AHEAD_SIZE, self._written_offset - start))
        self._ahead, self._ahead_offset = data, start
        self._backlog.read_ahead(self)
        return data[:size]

    def drop_read_ahead(self) -> None:
        self._ahead = b""

    def entries(self, queue_offset: int, count: int) -> Iterator[Entry]:
        """Yield at most `count` entries, across files and on into memory."""
        while count > 0 and (data := self.read(queue_offset, count)):
            yield from map(Entry._make, ENTRY.iter_unpack(data))
            queue_offset += len(data) // ENTRY_SIZE
            count -= len(data) // ENTRY_SIZE

    def is_doubtful(self, start: int, end: int) -> bool:
        """Whether some entries from `start` to `end` were neither written by this process nor compared with the log."""
        low, high = self._checked
        return start < self.trusted_offset and not low <= start <= min(end, self.trusted_offset) <= high

    def note_checked(self, start: int, end: int) -> None:
        """Note that the entries from `start` to `end` agree with the log."""
        low, high = self._checked
        if low <= start <= high:
            start, end = low, max(high, end)
        elif start <= low <= end:
            end = max(high, end)
        self._checked = start, end
        if start < self.trusted_offset <= end:
            self.trusted_offset = start

    def replace(self, queue_offset: int, data: bytes) -> None:
        """Overwrite entries in the files, without a sync. On OSError some may be unchanged."""
        start = queue_offset * ENTRY_SIZE
        assert self.first_offset * ENTRY_SIZE <= start
        assert start + len(data) <= self._written_offset
        self.drop_read_ahead()
        self._write(start, data)
        self._synced_offset = max(0, min(self._synced_offset, self._segments.start_of(start) - ENTRY_SIZE))
        if start + len(data) == self._written_offset and not self._pending:
            self._update_max_physical_offset()

    def reset(self) -> None:
        """Remove all entries and files, so that the queue can be rebuilt from the log."""
        self.drop_read_ahead()
        self._keep_pending(0)
        self._segments.discard()
        self._backlog.forget(self)
        self._written_offset = self._synced_offset = 0
        self.min_offset = self.max_physical_offset = self.trusted_offset = 0
        self._checked = (0, 0)

    def next_file_start(self, queue_offset: int) -> int:
        """Return the first queue offset of the file after the one that holds `queue_offset`."""
        count = self._segments.segment_size // ENTRY_SIZE
        return queue_offset + count - queue_offset % count

    def flush(self) -> None:
        """Write the pending entries to the files, without a sync; on OSError they stay pending."""
        if not self._pending:
            return
        pending = bytes(self._pending)
        self._write(self._written_offset, pending)
        self._written_offset += len(pending)
        self._keep_pending(0)

    def sync(self) -> None:
        """Make the flushed entries durable; blocks."""
        sync = self.prepare_sync()
        try:
            sync.run()
        finally:
            self.release(sync)

    def prepare_sync(self) -> Sync:
        """Return a Sync of the flushed entries that can run in a thread; `release` it before preparing the next."""
        sync = self._segments.prepare_sync(
            min(self._synced_offset, self._written_offset - ENTRY_SIZE), self._written_offset
        )
        self._synced_offset = self._written_offset
        return sync

    def release(self, sync: Sync) -> None:
        self._segments.release(sync)
        if not sync.is_done:
            self._synced_offset = 0
        elif self._synced_offset == self._written_offset:
            self._backlog.unsynced.pop(self, None)

    def cut(self, physical_offset: int, is_known: Callable[[int, Entry], bool] | None = None) -> None:
        """Remove the entries of records that end after `physical_offset`, which the log has lost.

        `is_known` tells whether the log agrees with an entry. If it is given, everything after the last known entry is
        removed as well: after a crash later sectors may be on disk although earlier ones are not.
        """

        def is_beyond(entry: Entry) -> bool:
            return not entry.is_valid or entry.physical_offset + entry.size > physical_offset

        def is_lost(queue_offset: int, entry: Entry) -> bool:
            if is_beyond(entry) or is_known is None:
                return is_beyond(entry)
            # A damaged record is not known, but the ones after it are.
            following = enumerate(self.entries(queue_offset, _SECTOR_ENTRIES_MAX), queue_offset)
            return not any(is_known(at, entry) for at, entry in following if not is_beyond(entry))

        if 0 < self.max_physical_offset <= physical_offset and is_known is None:
            return
        kept = self.max_offset
        if not self._ends_before(physical_offset, is_known):
            kept = self._first_where(is_lost, self.first_offset, self.max_offset)
        if kept * ENTRY_SIZE >= self._written_offset and is_known is None:
            self._keep_pending(kept * ENTRY_SIZE - self._written_offset)
        else:
            self._keep_pending(0)
            self._truncate(kept * ENTRY_SIZE)
        self._update_max_physical_offset()

    def _ends_before(self, physical_offset: int, is_known: Callable[[int, Entry], bool] | None) -> bool:
        """Whether the record of the last entry, and so of all, ends at or before `physical_offset` and is known."""
        if not 0 < self.max_physical_offset <= physical_offset:
            # max_physical_offset is 0 if the last entry is a filler or there is none.
            return False
        last = self.max_offset - 1
        entry = self.entry(last)
        return entry is not None and entry.is_valid and (is_known is None or is_known(last, entry))

    def delete_before(self, physical_offset: int) -> None:
        """Advance `min_offset` to the first record in the log, which now begins at `physical_offset`, and remove files.

        Only files whose records have all expired are removed. Blocks.
        """
        self._find_min(physical_offset)
        self._segments.delete_before(min(self.min_offset * ENTRY_SIZE, self._written_offset))

    def expire(self, physical_offset: int) -> None:
        """Advance `min_offset` to the first record in the log, which now begins at `physical_offset`."""
        if self.min_offset < self.max_offset:
            first = self.entry(self.min_offset)
            # In most queues nothing has expired.
            if first is None or first.is_filler or first.physical_offset < physical_offset:
                self._find_min(physical_offset)

    def _find_min(self, physical_offset: int) -> None:
        first = self.first_offset
        entry = self.entry(first) if physical_offset else None
        if not physical_offset or (
            entry is not None and not entry.is_filler and entry.physical_offset >= physical_offset
        ):
            # In most queues nothing has expired.
            self.min_offset = first
            return
        self.min_offset = self._first_where(
            lambda _, entry: entry.physical_offset >= physical_offset, self.first_offset, self.max_offset
        )

    def first_after(self, physical_offset: int) -> int:
        """Return the first queue offset whose record begins at or after `physical_offset`; `max_offset` if none."""
        return self._first_where(
            lambda _, entry: entry.physical_offset >= physical_offset, self.min_offset, self.max_offset
        )

    def detach(self) -> Removal | None:
        """Drop the first file if all its entries have expired; see `Segments.detach`."""
        self._backlog.version += 1
        return self._segments.detach(min(self.min_offset * ENTRY_SIZE, self._written_offset))

    def finish_removal(self, removal: Removal) -> None:
        self._segments.finish_removal(removal)

    def has_expired(self, physical_offset: int) -> bool:
        """Whether the queue has entries, and the records of all of them end at or before `physical_offset`."""
        return 0 < self.max_physical_offset <= physical_offset

    def last_unsynced(self) -> int | None:
        """Return the physical offset of the last entry if it is not durable yet; None if all are."""
        if self.is_durable:
            return None
        return next((entry.physical_offset for entry in self.entries(self.max_offset - 1, 1)), 0)

    def forget(self) -> None:
        """Close the files, which no longer belong to the queue."""
        self._segments.forget()

    def _first_where(self, holds: Callable[[int, Entry], bool], low: int, high: int) -> int:
        """Binary search: return the first queue offset in [low, high) at which `holds` is true; `high` if none.

        `holds` must be monotonic. A filler counts as the entry that follows it.
        """
        while low < high:
            middle = (low + high) // 2
            real, entry = middle, self.entry(middle)
            if entry is not None and entry.is_filler:
                entries = enumerate(self.entries(middle, high - middle), middle)
                real, entry = next(((at, entry) for at, entry in entries if not entry.is_filler), (high, None))
            if entry is None or holds(real, entry):
                high = middle
            else:
                low = real + 1
        return low

    def _is_plausible(self, queue_offset: int, physical_offset: int) -> bool:
        """Whether a record may have a queue offset other than the next one.

        The head of a record has no checksum, so its queue offset may be damaged. A gap is believed only if the missing
        records had room in the log, and a smaller offset only if it is 0: the topic was deleted and created again.
        """
        missing = queue_offset - self.max_offset
        if missing < 0:
            return queue_offset == 0
        return missing * RECORD_SIZE_MIN <= physical_offset - self.max_physical_offset

    def _seek(self, queue_offset: int) -> None:
        """Make `queue_offset` the next one: drop entries after it, write fillers for missing ones before it."""
        self.drop_read_ahead()
        self.flush()
        end, start = self._written_offset, queue_offset * ENTRY_SIZE
        if start < end:
            self._truncate(start)
            return
        self._backlog.gaps.setdefault(self, self.max_physical_offset)
        if self.max_offset == self.first_offset:
            # An empty queue begins in the file that holds `queue_offset`.
            end = self._segments.start_of(start)
            if end != self._segments.first_offset:
                self._segments.cut(0)
            self.min_offset = queue_offset
        self._write(end, FILLER * ((start - end) // ENTRY_SIZE))
        self._written_offset = start

    def _truncate(self, offset: int) -> None:
        """Zero everything after `offset`, so that old entries are not taken for new ones."""
        self.drop_read_ahead()
        self._backlog.unsynced[self] = None
        self._segments.cut(offset)
        self._written_offset = offset
        # The truncated file must be synced as a whole.
        self._synced_offset = min(self._synced_offset, self._segments.start_of(offset) - ENTRY_SIZE)
        self.min_offset = min(self.min_offset, offset // ENTRY_SIZE)
        self.trusted_offset = min(self.trusted_offset, offset // ENTRY_SIZE)
        self._checked = (0, 0)

    def _keep_pending(self, size: int) -> None:
        """Drop the pending entries except the first `size` bytes."""
        self._backlog.entries -= (len(self._pending) - size) // ENTRY_SIZE
        del self._pending[size:]
        if not size:
            self._backlog.unwritten.pop(self, None)

    def _write(self, offset: int, data: bytes) -> None:
        if data:
            self._backlog.unsynced[self] = None
        start = 0
        while start < len(data):
            at = offset + start
            if at >= self._segments.end_offset:
                self._segments.extend(at)
            piece = data[start : start + self._segments.room_after(at)]
            self._segments.write(at, piece)
            start += len(piece)

    def _update_max_physical_offset(self) -> None:
        last = self.entry(self.max_offset - 1) if self.max_offset > self.min_offset else None
        is_real = last is not None and not last.is_filler
        self.max_physical_offset = last.physical_offset + last.size if is_real and last is not None else 0
