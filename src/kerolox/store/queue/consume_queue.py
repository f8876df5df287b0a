"""A consume queue: for each message of one queue, where it lies in the commit log.

int64  physical offset        entry n lies at byte 20 * n
int32  size of the record     what was never written is zero
int64  tags code
"""

import logging
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap, takewhile
from operator import attrgetter
from typing import Final, NamedTuple

from kerolox.store.log.segments import Removal, Segments, Sync

log = logging.getLogger(__name__)

ENTRY = struct.Struct(">qiq")
ENTRY_SIZE: Final = ENTRY.size
_pack = ENTRY.pack
_FILLER_SIZE = 0x7FFFFFFF
# The smallest that a record can be.
_RECORD_SIZE_MIN = 91
# Most queues have few entries; so many cost no more to read than one.
_FEW = 64
# A sector, of which a disk writes all or nothing, has fewer entries.
_DOUBTED_MAX = 32
# So many bytes are read where some entries are wanted, though not only one; so many queues keep what they have read.
_AHEAD_SIZE = 4096
_AHEAD_SIZE_MIN = 8 * ENTRY_SIZE
_AHEAD_QUEUES_MAX = 1024
# Stands where entries would be that were never made.
_FILLER = _pack(0, _FILLER_SIZE, 0)


class Entry(NamedTuple):
    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_valid(self) -> bool:
        return self.physical_offset >= 0 and self.size > 0

    @property
    def is_filler(self) -> bool:
        return self.size == _FILLER_SIZE


_is_valid = attrgetter("is_valid")


class Backlog:
    """The queues for which something is left to be done, so that those that are idle cost nothing."""

    __slots__ = ("_ahead", "entries", "unsynced", "unwritten")

    def __init__(self) -> None:
        # Those that have read ahead, the last of them last.
        self._ahead: OrderedDict[ConsumeQueue, None] = OrderedDict()
        # Those with entries that are in memory only, and how many entries these are together.
        self.unwritten: dict[ConsumeQueue, None] = {}
        self.entries = 0
        # Those of which something written may not survive a power cut.
        self.unsynced: dict[ConsumeQueue, None] = {}

    def read_ahead(self, queue: "ConsumeQueue") -> None:
        """Notes that a queue has read ahead; the one that has done so longest ago forgets it if they are many."""
        self._ahead[queue] = None
        self._ahead.move_to_end(queue)
        if len(self._ahead) > _AHEAD_QUEUES_MAX:
            self._ahead.popitem(last=False)[0].forget_ahead()

    def forget(self, queue: "ConsumeQueue") -> None:
        """Leaves a queue as it is, as when it is about to be deleted."""
        self._ahead.pop(queue, None)
        self.unsynced.pop(queue, None)
        if self.unwritten.pop(queue, 0) is None:
            self.entries -= queue.pending_count


class ConsumeQueue:
    """Entries are kept in memory and written behind, since they can be made again from the log."""

    __slots__ = (
        "_ahead",
        "_ahead_offset",
        "_backlog",
        "_pending",
        "_segments",
        "_synced_offset",
        "_written_offset",
        "max_physical_offset",
        "min_offset",
    )

    def __init__(self, segments: Segments, backlog: Backlog | None = None) -> None:
        self._segments = segments
        self._backlog = backlog or Backlog()
        self._pending = bytearray()
        # What was read of the files last, and where it begins: who reads some entries comes back for the next.
        self._ahead, self._ahead_offset = b"", 0
        # In bytes: up to here the entries are in the files, from here on in memory.
        self._written_offset = 0
        # In bytes: up to here they survive a power cut.
        self._synced_offset = 0
        # The first entry whose record is still in the log.
        self.min_offset = 0
        # The end of the last record that has an entry; what lies before it is not entered again.
        self.max_physical_offset = 0

    @property
    def max_offset(self) -> int:
        """The offset the next entry will have."""
        return (self._written_offset + len(self._pending)) // ENTRY_SIZE

    @property
    def pending_count(self) -> int:
        """How many entries are in memory only."""
        return len(self._pending) // ENTRY_SIZE

    @property
    def unsynced_size(self) -> int:
        """How many bytes were written since the last sync; more, if that is not known."""
        return self._written_offset - self._synced_offset

    @property
    def _first(self) -> int:
        """The first offset that has an entry, or would have it."""
        has_files = self._segments.end_offset > 0
        return (self._segments.first_offset if has_files else self._written_offset) // ENTRY_SIZE

    @property
    def is_durable(self) -> bool:
        """Whether all entries survive a power cut."""
        return not self._pending and self._synced_offset == self._written_offset

    def load(self) -> None:
        """Finds the files and the last entry in them."""
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
        # It has zeros where entries will be.
        self.forget_ahead()
        self.min_offset = first
        if few is None:
            self._note_last()
        elif few and not few[-1].is_filler:
            self.max_physical_offset = few[-1].physical_offset + few[-1].size

    def _few(self, first: int) -> list[Entry] | None:
        """Returns all entries if they are few, and None if there are more than one read tells."""
        data = self.read(first, _FEW)
        entries = list(takewhile(_is_valid, map(Entry._make, ENTRY.iter_unpack(data))))
        return entries if len(entries) * ENTRY_SIZE < len(data) or not data else None

    def append(self, queue_offset: int, physical_offset: int, size: int, tags_code: int) -> bool:
        """Enters a record; False if it has been entered before, or cannot have the offset that it says it has."""
        end = physical_offset + size
        if end <= self.max_physical_offset:
            return False
        if queue_offset * ENTRY_SIZE != self._written_offset + len(self._pending):
            if not self._is_plausible(queue_offset, physical_offset):
                next_offset = self.max_offset
                log.error("record at %d: queue offset %d, expected %d", physical_offset, queue_offset, next_offset)
                return False
            self._go_to(queue_offset)
        backlog = self._backlog
        if not self._pending:
            backlog.unwritten[self] = None
        backlog.entries += 1
        self._pending += _pack(physical_offset, size, tags_code)
        self.max_physical_offset = end
        return True

    def append_all(self, queue_offsets: Sequence[int], entries: Sequence[tuple[int, int, int]]) -> None:
        """Enters records that lie in this order in the log, as `append` would one after the other."""
        start = queue_offsets[0]
        if queue_offsets == list(range(start, start + len(queue_offsets))):
            self.append_run(start, entries)
        else:
            for queue_offset, entry in zip(queue_offsets, entries, strict=True):
                self.append(queue_offset, *entry)

    def append_run(self, queue_offset: int, entries: Sequence[tuple[int, int, int]]) -> None:
        """Enters records one after the other: physical offset, size and tags code of each."""
        physical_offset, size, _ = entries[0]
        if (
            queue_offset * ENTRY_SIZE != self._written_offset + len(self._pending)
            or physical_offset + size <= self.max_physical_offset
        ):
            for number, entry in enumerate(entries, queue_offset):
                self.append(number, *entry)
            return
        backlog = self._backlog
        if not self._pending:
            backlog.unwritten[self] = None
        backlog.entries += len(entries)
        self._pending += b"".join(starmap(_pack, entries))
        physical_offset, size, _ = entries[-1]
        self.max_physical_offset = physical_offset + size

    def entry(self, queue_offset: int) -> Entry | None:
        """Returns where the message at `queue_offset` lies, or None if there is no entry."""
        data = self.read(queue_offset, 1)
        return Entry._make(ENTRY.unpack(data)) if data else None

    def read(self, queue_offset: int, count: int) -> bytes:
        """Returns at most `count` entries as they lie in the file, not beyond the end of one file."""
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

    def forget_ahead(self) -> None:
        self._ahead = b""

    def entries(self, queue_offset: int, count: int) -> Iterator[Entry]:
        """Yields at most `count` entries, from file to file and on into memory."""
        while count > 0 and (data := self.read(queue_offset, count)):
            yield from map(Entry._make, ENTRY.iter_unpack(data))
            queue_offset += len(data) // ENTRY_SIZE
            count -= len(data) // ENTRY_SIZE

    def next_file(self, queue_offset: int) -> int:
        """Returns the first offset of the file after that of `queue_offset`."""
        count = self._segments.segment_size // ENTRY_SIZE
        return queue_offset + count - queue_offset % count

    def flush(self) -> None:
        """Writes what is pending to the files; nothing is durable yet. OSError leaves it pending."""
        if not self._pending:
            return
        pending = bytes(self._pending)
        self._write(self._written_offset, pending)
        self._written_offset += len(pending)
        self._keep_pending(0)

    def sync(self) -> None:
        """Makes what was flushed survive a power cut; may block."""
        sync = self.hold()
        try:
            sync.run()
        finally:
            self.release(sync)

    def hold(self) -> Sync:
        """Returns what does the same in a thread; to be released afterwards, before the next is begun."""
        sync = self._segments.hold(min(self._synced_offset, self._written_offset - ENTRY_SIZE), self._written_offset)
        self._synced_offset = self._written_offset
        return sync

    def release(self, sync: Sync) -> None:
        self._segments.release(sync)
        if not sync.is_done:
            self._synced_offset = 0
        elif self._synced_offset == self._written_offset:
            self._backlog.unsynced.pop(self, None)

    def cut(self, physical_offset: int, is_known: Callable[[int, Entry], bool] | None = None) -> None:
        """Forgets the entries of records that end after `physical_offset`: the log has lost them.

        With `is_known`, which tells whether the log agrees with an entry, nothing is believed of what follows the
        last that it knows: after a crash it may have reached the disk in any order.
        """

        def is_beyond(entry: Entry) -> bool:
            return not entry.is_valid or entry.physical_offset + entry.size > physical_offset

        def is_lost(queue_offset: int, entry: Entry) -> bool:
            if is_beyond(entry) or is_known is None:
                return is_beyond(entry)
            # A record that was damaged since is not known, but those after it are.
            following = enumerate(self.entries(queue_offset, _DOUBTED_MAX), queue_offset)
            return not any(is_known(at, entry) for at, entry in following if not is_beyond(entry))

        if 0 < self.max_physical_offset <= physical_offset and is_known is None:
            return
        kept = self.max_offset
        if not self._ends_before(physical_offset, is_known):
            kept = self._first_where(is_lost, self._first, self.max_offset)
        if kept * ENTRY_SIZE >= self._written_offset and is_known is None:
            self._keep_pending(kept * ENTRY_SIZE - self._written_offset)
        else:
            self._keep_pending(0)
            self._go_back(kept * ENTRY_SIZE)
        self._note_last()

    def _ends_before(self, physical_offset: int, is_known: Callable[[int, Entry], bool] | None) -> bool:
        """Whether the last entry, and so every one, is of a record that ends before `physical_offset`, and is known."""
        if not 0 < self.max_physical_offset <= physical_offset:
            # It may be a filler, or there may be none.
            return False
        last = self.max_offset - 1
        entry = self.entry(last)
        return entry is not None and entry.is_valid and (is_known is None or is_known(last, entry))

    def delete_before(self, physical_offset: int) -> None:
        """Removes files whose records are all gone from the log, and moves the first offset to one that is not.

        May block.
        """
        self._find_min(physical_offset)
        self._segments.delete_before(min(self.min_offset * ENTRY_SIZE, self._written_offset))

    def expire(self, physical_offset: int) -> None:
        """Moves the first offset to one whose record is still in the log, which now begins at `physical_offset`."""
        if self.min_offset < self.max_offset:
            first = self.entry(self.min_offset)
            # Of most queues nothing has gone.
            if first is None or first.is_filler or first.physical_offset < physical_offset:
                self._find_min(physical_offset)

    def _find_min(self, physical_offset: int) -> None:
        first = self._first
        entry = self.entry(first) if physical_offset else None
        if not physical_offset or (
            entry is not None and not entry.is_filler and entry.physical_offset >= physical_offset
        ):
            # Of most queues nothing has gone.
            self.min_offset = first
            return
        self.min_offset = self._first_where(
            lambda _, entry: entry.physical_offset >= physical_offset, self._first, self.max_offset
        )

    def detach(self) -> Removal | None:
        """Forgets the first file if all its entries have expired; to be settled once it is removed."""
        return self._segments.detach(min(self.min_offset * ENTRY_SIZE, self._written_offset))

    def settle(self, removal: Removal) -> None:
        self._segments.settle(removal)

    def has_expired(self, physical_offset: int) -> bool:
        """Whether there were entries, and the records of all of them lay before `physical_offset`."""
        return 0 < self.max_physical_offset <= physical_offset

    def last_unsynced(self) -> int | None:
        """Returns where the record of the last entry lies if a power cut could take the entry; None if not."""
        if self.is_durable:
            return None
        return next((entry.physical_offset for entry in self.entries(self.max_offset - 1, 1)), 0)

    def forget(self) -> None:
        """Closes the files, which belong to the queue no longer."""
        self._segments.forget()

    def _first_where(self, holds: Callable[[int, Entry], bool], low: int, high: int) -> int:
        """Returns the first offset from `low` up to `high` at which `holds`, as it then does for all that follow.

        Of a filler the same is true as of the entry that follows it.
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
        """Whether a record may have another offset than the next.

        Nothing guards the head of a record. Before it as many others must have found room as it says there were;
        and back goes only a topic that was deleted and made again.
        """
        missing = queue_offset - self.max_offset
        if missing < 0:
            return queue_offset == 0
        return missing * _RECORD_SIZE_MIN <= physical_offset - self.max_physical_offset

    def _go_to(self, queue_offset: int) -> None:
        """Makes `queue_offset` the next: entries after it are forgotten, those before it that are missing filled."""
        self.forget_ahead()
        self.flush()
        end, start = self._written_offset, queue_offset * ENTRY_SIZE
        if start < end:
            self._go_back(start)
            return
        if self.max_offset == self._first:
            # A queue without entries begins in the file in which it goes on.
            end = self._segments.start_of(start)
            if end != self._segments.first_offset:
                self._segments.cut(0)
            self.min_offset = queue_offset
        self._write(end, _FILLER * ((start - end) // ENTRY_SIZE))
        self._written_offset = start

    def _go_back(self, offset: int) -> None:
        """Leaves zeros after `offset`, so that nobody takes the old entries for new ones."""
        self.forget_ahead()
        self._backlog.unsynced[self] = None
        self._segments.cut(offset)
        self._written_offset = offset
        # Of a file that was cut nothing is known to be durable.
        self._synced_offset = min(self._synced_offset, self._segments.start_of(offset) - ENTRY_SIZE)
        self.min_offset = min(self.min_offset, offset // ENTRY_SIZE)

    def _keep_pending(self, size: int) -> None:
        """Forgets the entries in memory but for the first `size` bytes of them."""
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

    def _note_last(self) -> None:
        last = self.entry(self.max_offset - 1) if self.max_offset > self.min_offset else None
        is_real = last is not None and not last.is_filler
        self.max_physical_offset = last.physical_offset + last.size if is_real and last is not None else 0
