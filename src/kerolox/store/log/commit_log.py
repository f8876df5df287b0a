"""The commit log: every record of every topic, one after the other, in files of one size."""

from collections.abc import Sequence
from itertools import accumulate, repeat, takewhile
from pathlib import Path

import msgspec

from kerolox.message.record import BLANK_SIZE_MIN, blank, stamp_all
from kerolox.store.log.segments import Removal, Segments, Sync
from kerolox.store.seal import Marks


class Parts(msgspec.Struct, gc=False):
    """What several records are found by: all keys, where the record of each begins, and each record's tag."""

    keys: list[bytes]
    key_starts: Sequence[int]
    tags_codes: list[int]


class Draft(msgspec.Struct, gc=False):
    """What is to be appended together: one record, or several of one topic. Its place in the log is not yet known."""

    topic: str
    queue_id: int
    records: bytearray
    # Where in `records` each of them begins; a range if they are of one size, with hosts of the same kind. With no
    # `queue_ids` they are those of a batch then.
    starts: Sequence[int] = (0,)
    # Records of some transaction types are in no queue, and take no offset of one.
    is_queued: bool = True
    # Whether its sender wants to wait until it is durable, where the configuration promises that (property WAIT).
    is_awaited: bool = True
    # What its one record is found by, so that nobody has to read it again to know; None if that was not looked for.
    keys: list[bytes] | None = None
    tags_code: int = 0
    # The same for several records.
    parts: Parts | None = None
    # Of several records that are not all of one queue: the queue of each, and the offset it is given there.
    queue_ids: Sequence[int] | None = None
    queue_offsets: Sequence[int] = ()


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where a draft came to lie: its first record, and the end of its last."""

    physical_offset: int
    end_offset: int
    queue_offset: int
    store_timestamp: int


class CommitLog:
    """Appending is a plain function: between choosing the offset and writing the bytes nothing else happens."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        # A draft is in one file, and at its end there is room for a blank.
        self.draft_size_max = segments.segment_size - BLANK_SIZE_MIN
        # The end of what is written, and where this process began to write.
        self.end_offset = self.appended_from = 0
        # The end of what a write that failed may have left behind it.
        self._stray_end = 0
        # The last run of bytes, which whoever follows the log will ask for next.
        self._recent_offset = 0
        self._recent = b""
        # Checksums over the last files, by which the next start knows them.
        self.marks = Marks(segments.segment_size)

    @property
    def first_offset(self) -> int:
        """The oldest offset that is still there."""
        return self._segments.first_offset

    def load(self, end_offset: int) -> None:
        """Goes on writing at `end_offset`, the end of the last whole record that recovery has found."""
        self.end_offset = self.appended_from = end_offset
        self._recent_offset, self._recent = end_offset, b""

    def has_room(self, size: int) -> bool:
        """Whether drafts of `size` bytes together fit into the files that are there."""
        return self.end_offset + size + BLANK_SIZE_MIN <= self._segments.end_offset

    def append(
        self,
        drafts: Sequence[Draft],
        queue_offsets: Sequence[int],
        store_timestamp: int,
        no_file: OSError | None = None,
    ) -> list[Appended]:
        """Writes drafts, with one write for all that go into one file, and returns where each came to lie.

        The list is shorter than `drafts` if the next could not be written, as when the disk has no room for another
        file; OSError if it was the first. With `no_file`, which says why not, no other file is made.
        """
        appended: list[Appended] = []
        while len(appended) < len(drafts):
            try:
                self._make_room(len(drafts[len(appended)].records), no_file)
                appended += self._append_run(drafts, queue_offsets, store_timestamp, len(appended))
            except OSError:
                if appended:
                    break
                raise
        return appended

    def _make_room(self, size: int, no_file: OSError | None) -> None:
        """Makes sure that a draft of `size` fits at the end, in a new file if need be."""
        assert size <= self.draft_size_max
        segments = self._segments
        if self.end_offset == segments.end_offset:
            self._extend(no_file)
        if self._stray_end:
            # Else what was refused could be found after a crash, behind what was accepted.
            self.clear_stray()
        room = segments.room_after(self.end_offset)
        if size + BLANK_SIZE_MIN > room:
            # A record never spans two files: the rest of this one becomes a blank that sends readers on to the
            # next. That comes first, for a blank that leads nowhere would end the log.
            if self.end_offset + room == segments.end_offset:
                self._extend(no_file)
            self._write(blank(room))
            self.marks.add(self.end_offset, blank(room), 0)
            self.end_offset += room

    def _extend(self, no_file: OSError | None) -> None:
        if no_file is not None:
            raise no_file
        self._segments.extend(max(self._segments.end_offset, self.end_offset))

    def _append_run(
        self, drafts: Sequence[Draft], queue_offsets: Sequence[int], store_timestamp: int, first: int
    ) -> list[Appended]:
        """Writes as many drafts from the `first` on as fit into this file, at least one."""
        start = self.end_offset
        if len(drafts) == 1:
            # As most turns bring it if few are sent; there is room for it.
            draft, queue_offset = drafts[0], queue_offsets[0]
            _stamp(draft, queue_offset, start, store_timestamp)
            data = bytes(draft.records)
            self._write(data)
            self._grow(data, len(draft.starts))
            return [Appended(start, self.end_offset, queue_offset, store_timestamp)]
        room = self._segments.room_after(start) - BLANK_SIZE_MIN
        if first:
            drafts, queue_offsets = drafts[first:], queue_offsets[first:]
        records = [draft.records for draft in drafts]
        if sum(map(len, records)) > room:
            ends = accumulate(map(len, records))
            count = sum(1 for _ in takewhile(room.__ge__, ends))
            drafts, queue_offsets, records = drafts[:count], queue_offsets[:count], records[:count]
        offsets = [start]
        record_count = 0
        for draft, queue_offset in zip(drafts, queue_offsets, strict=True):
            _stamp(draft, queue_offset, offsets[-1], store_timestamp)
            record_count += len(draft.starts)
            offsets.append(offsets[-1] + len(draft.records))
        data = b"".join(records)
        self._write(data)
        self._grow(data, record_count)
        return list(map(Appended, offsets, offsets[1:], queue_offsets, repeat(store_timestamp)))

    def _grow(self, data: bytes, record_count: int) -> None:
        """Counts what was written at the end."""
        start = self.end_offset
        self.end_offset = start + len(data)
        self.marks.add(start, data, record_count)
        self._recent_offset, self._recent = start, data

    def _write(self, data: bytes) -> None:
        """Writes at the end; of what fails some may be there."""
        try:
            self._segments.write(self.end_offset, data)
        except OSError:
            self._stray_end = self.end_offset + len(data)
            raise

    def clear_stray(self) -> None:
        """Removes what a write that failed has left after the end; OSError if that cannot be written either.

        For good: else a power cut could keep what was refused, and lose what was accepted in its place.
        """
        if self._stray_end > self.end_offset:
            self._segments.write(self.end_offset, bytes(self._stray_end - self.end_offset))
            self._segments.sync(self.end_offset, self._stray_end)
        self._stray_end = 0

    def read(self, offset: int, size: int) -> bytes:
        """Returns at most `size` bytes from `offset` on, not beyond the end of its file or of the log."""
        start = offset - self._recent_offset
        if 0 <= start < len(self._recent):
            return self._recent[start : start + size]
        return self._segments.read(offset, min(size, self.end_offset - offset))

    def view(self, offset: int) -> tuple[memoryview | None, int, int]:
        """Returns the file that holds `offset`, where it begins, and up to where the log goes in it."""
        segments = self._segments
        size = segments.segment_size
        start = offset - offset % size
        return segments.view(offset), start, min(self.end_offset, start + size)

    def sync(self, start_offset: int, end_offset: int) -> None:
        """Makes a range survive a power cut; may block."""
        self._segments.sync(start_offset, end_offset)

    def hold(self, start_offset: int, end_offset: int) -> Sync:
        """Returns what does the same in a thread; to be released afterwards."""
        return self._segments.hold(start_offset, end_offset)

    def release(self, sync: Sync) -> None:
        self._segments.release(sync)

    def next_file(self, offset: int) -> int:
        """Returns where the file after that of `offset` begins."""
        return self._segments.start_of(offset) + self._segments.segment_size

    def delete_before(self, offset: int) -> int:
        """Removes the files whose last byte is older than `offset`, but never the one being written."""
        count = self._segments.delete_before(min(offset, self._segments.start_of(self.end_offset)))
        self._forget_deleted()
        return count

    def oldest(self, count: int) -> list[tuple[int, Path]]:
        """Returns where the oldest files end, and their paths; at most so many, and never the one being written."""
        segments = self._segments
        ends = [start + segments.segment_size for start in segments.starts[:-1][:count]]
        return [(end, segments.path_of(end - 1)) for end in ends if end <= self.end_offset]

    def detach(self, offset: int) -> Removal | None:
        """Forgets the first file if it ends at `offset` or before; to be settled once it is removed."""
        removal = self._segments.detach(min(offset, self._segments.start_of(self.end_offset)))
        self._forget_deleted()
        return removal

    def _forget_deleted(self) -> None:
        """What was written last may be in a file that is no longer there."""
        if self._recent_offset < self._segments.first_offset:
            self._recent_offset, self._recent = self.end_offset, b""

    def settle(self, removal: Removal) -> None:
        self._segments.settle(removal)


def _stamp(draft: Draft, queue_offset: int, physical_offset: int, store_timestamp: int) -> None:
    """Writes into the records of a draft what is known only when their place in the log is."""
    starts = draft.starts
    numbers = draft.queue_offsets or range(queue_offset, queue_offset + len(starts))
    stamp_all(draft.records, starts, numbers, physical_offset, store_timestamp)
