"""The commit log: the records of all topics, in append order, in files of equal size (CommitLog)."""

from collections.abc import Sequence
from itertools import accumulate, repeat, takewhile
from pathlib import Path

import msgspec

from kerolox.message.records.record import BLANK_SIZE_MIN, blank, stamp_all
from kerolox.store.log.segments import Removal, Segments, Sync
from kerolox.store.recovery.log_checksums import FileChecksums


class KeyColumns(msgspec.Struct, gc=False):
    """The properties of several records that queues and index need, so that dispatching need not parse the records."""

    unique_keys: Sequence[bytes]
    # Each element has the keys of a record, separated by spaces.
    keys: Sequence[bytes]
    tags: Sequence[bytes]
    tags_codes: Sequence[int]

    def part(self, first: int, end: int) -> "KeyColumns":
        part = slice(first, end)
        return KeyColumns(self.unique_keys[part], self.keys[part], self.tags[part], self.tags_codes[part])


class Append(msgspec.Struct, gc=False):
    """One encoded record, or several, that are appended together; their offsets are not known yet."""

    # Topic and queue of the first record, and of all others if there are no `queues`.
    topic: str
    queue_id: int
    records: bytearray
    # Start of each record in `records`. A range promises records of equal size with hosts of equal length; without
    # `queues` it is one producer batch.
    starts: Sequence[int] = (0,)
    # PREPARED and ROLLBACK records get no queue entry and consume no queue offset.
    is_queued: bool = True
    # Whether the sender waits for durability under SYNC_FLUSH (property WAIT).
    is_awaited: bool = True
    # Unique key, keys and tag of a single record; None if they were not read, and the dispatcher must read the record.
    keys: tuple[bytes, bytes, bytes] | None = None
    tags_code: int = 0
    # Unique keys, keys and tags of several records; None as for `keys`.
    key_columns: KeyColumns | None = None
    # Topic and queue id of each record, and its assigned queue offset, if they belong to more than one queue.
    queues: Sequence[tuple[str, int]] | None = None
    queue_offsets: Sequence[int] = ()


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Position of an appended `Append`: start of its first record, end of its last, and its first queue offset."""

    physical_offset: int
    end_offset: int
    queue_offset: int
    store_timestamp: int


class CommitLog:
    """Appends to and reads from the log files.

    `append` does not await: no other task runs between choosing an offset and writing the bytes at it.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        # An append never spans two files, and each file keeps room for a blank record at its end.
        self.append_size_max = segments.segment_size - BLANK_SIZE_MIN
        # End of the written log, and the offset at which this process began to write.
        self.end_offset = self.appended_from = 0
        # End of the bytes that a failed write may have left after `end_offset`; 0 if there are none.
        self._stray_end = 0
        # The bytes of the last write: the dispatcher reads them next.
        self._recent_offset = 0
        self._recent = b""
        # Checksums of the last files, which the next start compares.
        self.checksums = FileChecksums(segments.segment_size)

    @property
    def first_offset(self) -> int:
        """Start of the oldest file."""
        return self._segments.first_offset

    def load(self, end_offset: int) -> None:
        """Continue at `end_offset`, the end of the last whole record that recovery found."""
        self.end_offset = self.appended_from = end_offset
        self._recent_offset, self._recent = end_offset, b""

    def has_room(self, size: int) -> bool:
        """Whether appends of `size` bytes in total fit into the existing files."""
        return self.end_offset + size + BLANK_SIZE_MIN <= self._segments.end_offset

    def append(
        self,
        appends: Sequence[Append],
        queue_offsets: Sequence[int],
        store_timestamp: int,
        allocation_error: OSError | None = None,
    ) -> list[Appended]:
        """Write `appends`, with one write per file, and return the position of each.

        The result is shorter than `appends` if a later write failed, for example for lack of disk space; OSError if
        the first one failed. With `allocation_error` no new file is created; that error is raised instead.
        """
        appended: list[Appended] = []
        while len(appended) < len(appends):
            try:
                self._make_room(len(appends[len(appended)].records), allocation_error)
                appended += self._append_run(appends, queue_offsets, store_timestamp, len(appended))
            except OSError:
                if appended:
                    break
                raise
        return appended

    def append_copied(self, data: bytes, record_count: int) -> None:
        """Write whole records that another broker stamped; they fit into the current file, which must exist."""
        if self._stray_end:
            self.clear_stray()
        self._write(data)
        self._advance(data, record_count)

    def _make_room(self, size: int, allocation_error: OSError | None) -> None:
        """Make sure that `size` bytes fit at the end of the log; create the next file if necessary."""
        assert size <= self.append_size_max
        segments = self._segments
        if self.end_offset == segments.end_offset:
            self._extend(allocation_error)
        if self._stray_end:
            # Otherwise recovery could find the refused records after a crash, behind the accepted ones.
            self.clear_stray()
        room = segments.room_after(self.end_offset)
        if size + BLANK_SIZE_MIN > room:
            # A record never spans two files: a blank record fills the rest of this file and sends readers to the next.
            # The next file is created first, because a blank without a next file would end the log.
            if self.end_offset + room == segments.end_offset:
                self._extend(allocation_error)
            self._write(blank(room))
            self.checksums.add(self.end_offset, blank(room), 0)
            self.end_offset += room

    def _extend(self, allocation_error: OSError | None) -> None:
        if allocation_error is not None:
            raise allocation_error
        self._segments.extend(max(self._segments.end_offset, self.end_offset))

    def _append_run(
        self, appends: Sequence[Append], queue_offsets: Sequence[int], store_timestamp: int, first: int
    ) -> list[Appended]:
        """Write as many appends as fit into the current file, starting at index `first`; at least one."""
        start = self.end_offset
        if len(appends) == 1:
            # The usual case at a low send rate; `_make_room` has made room for it.
            append, queue_offset = appends[0], queue_offsets[0]
            _stamp(append, queue_offset, start, store_timestamp)
            data = bytes(append.records)
            self._write(data)
            self._advance(data, len(append.starts))
            return [Appended(start, self.end_offset, queue_offset, store_timestamp)]
        room = self._segments.room_after(start) - BLANK_SIZE_MIN
        if first:
            appends, queue_offsets = appends[first:], queue_offsets[first:]
        records = [append.records for append in appends]
        if sum(map(len, records)) > room:
            ends = accumulate(map(len, records))
            count = sum(1 for _ in takewhile(room.__ge__, ends))
            appends, queue_offsets, records = appends[:count], queue_offsets[:count], records[:count]
        offsets = [start]
        record_count = 0
        for append, queue_offset in zip(appends, queue_offsets, strict=True):
            _stamp(append, queue_offset, offsets[-1], store_timestamp)
            record_count += len(append.starts)
            offsets.append(offsets[-1] + len(append.records))
        data = b"".join(records)
        self._write(data)
        self._advance(data, record_count)
        return list(map(Appended, offsets, offsets[1:], queue_offsets, repeat(store_timestamp)))

    def _advance(self, data: bytes, record_count: int) -> None:
        """Move the end of the log past `data`, which was just written there."""
        start = self.end_offset
        self.end_offset = start + len(data)
        self.checksums.add(start, data, record_count)
        self._recent_offset, self._recent = start, data

    def _write(self, data: bytes) -> None:
        """Write at the end of the log. A failed write may leave some of its bytes in the file."""
        try:
            self._segments.write(self.end_offset, data)
        except OSError:
            self._stray_end = self.end_offset + len(data)
            raise

    def clear_stray(self) -> None:
        """Overwrite with zeros, durably, what a failed write left after the end; OSError if this write fails too.

        Without the sync a power cut could keep the refused bytes and lose the accepted ones written over them.
        """
        if self._stray_end > self.end_offset:
            self._segments.write(self.end_offset, bytes(self._stray_end - self.end_offset))
            self._segments.sync(self.end_offset, self._stray_end)
        self._stray_end = 0

    def read(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes from `offset` on, not beyond the end of its file or of the log."""
        start = offset - self._recent_offset
        if 0 <= start < len(self._recent):
            return self._recent[start : start + size]
        return self._segments.read(offset, min(size, self.end_offset - offset))

    def view(self, offset: int) -> tuple[memoryview | None, int, int]:
        """Return the mapped file that holds `offset`, its start offset, and the end offset of the log within it."""
        segments = self._segments
        size = segments.segment_size
        start = offset - offset % size
        end = start + size
        if end > self.end_offset:
            end = self.end_offset
        return segments.view(offset), start, end

    def sync(self, start_offset: int, end_offset: int) -> None:
        """Make a range durable; blocks."""
        self._segments.sync(start_offset, end_offset)

    def prepare_sync(self, start_offset: int, end_offset: int) -> Sync:
        """Return a Sync of the range that can run in a thread; pass it to `release` afterwards."""
        return self._segments.prepare_sync(start_offset, end_offset)

    def release(self, sync: Sync) -> None:
        self._segments.release(sync)

    def next_file_start(self, offset: int) -> int:
        """Return the start of the file after the one that holds `offset`."""
        return self._segments.start_of(offset) + self._segments.segment_size

    def delete_before(self, offset: int) -> int:
        """Remove the files that end at or before `offset`, but never the one being written; return how many."""
        count = self._segments.delete_before(min(offset, self._segments.start_of(self.end_offset)))
        self._forget_deleted()
        return count

    def files(self) -> list[tuple[int, Path]]:
        """Return end offset and path of every file, including the one being written and a preallocated next one."""
        segments = self._segments
        ends = [start + segments.segment_size for start in segments.starts]
        return [(end, segments.path_of(end - 1)) for end in ends]

    def oldest(self, count: int) -> list[tuple[int, Path]]:
        """Return end offset and path of the `count` oldest files at most, never of the one being written."""
        segments = self._segments
        ends = [start + segments.segment_size for start in segments.starts[:-1][:count]]
        return [(end, segments.path_of(end - 1)) for end in ends if end <= self.end_offset]

    def detach(self, offset: int) -> Removal | None:
        """Drop the first file from the log if it ends at or before `offset`; see `Segments.detach`."""
        removal = self._segments.detach(min(offset, self._segments.start_of(self.end_offset)))
        self._forget_deleted()
        return removal

    def _forget_deleted(self) -> None:
        """Drop the copy of the last write if its file was deleted."""
        if self._recent_offset < self._segments.first_offset:
            self._recent_offset, self._recent = self.end_offset, b""

    def finish_removal(self, removal: Removal) -> None:
        self._segments.finish_removal(removal)


def _stamp(append: Append, queue_offset: int, physical_offset: int, store_timestamp: int) -> None:
    """Write queue offsets, physical offsets and store timestamp into the encoded records."""
    starts = append.starts
    queue_offsets = append.queue_offsets or range(queue_offset, queue_offset + len(starts))
    stamp_all(append.records, starts, queue_offsets, physical_offset, store_timestamp)
