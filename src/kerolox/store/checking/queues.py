"""Compares consume queues with the log: each record has its entry, and each entry its record."""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from kerolox.message import sysflag
from kerolox.message.peek import Peek
from kerolox.store.checking.report import Meter, Report
from kerolox.store.checking.units import UnitCheck
from kerolox.store.cleaning.deleted_topics import DELETED_TOPICS, DeletedTopics
from kerolox.store.delay.delays import SCHEDULE_TOPIC
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue, Entry
from kerolox.store.queue.queue_ext import is_address
from kerolox.store.queue.queues import batch_topics

# All cursors together read so many bytes ahead.
_AHEAD_SIZE = 64 * 1024 * 1024
_AHEAD_ENTRIES_MIN, _AHEAD_ENTRIES_MAX = 16, 4096
# Queues of queues (LMQ): their entries point to records of other topics.
_LIGHT_PREFIX = "%LMQ%"


class _Missing(msgspec.Struct):
    """Records without an entry: how many, and where the first of them lies."""

    count: int = 0
    first: str = ""

    def add(self, record: Peek) -> None:
        if not self.count:
            self.first = f"{record.physical_offset} ({record.topic}/{record.queue_id}/{record.queue_offset})"
        self.count += 1


class _Cursor:
    """Goes through the entries of one queue as its records come by; what it reads ahead is bounded."""

    def __init__(self, queue: ConsumeQueue, first: int, ahead: int) -> None:
        self._queue = queue
        self._ahead = ahead
        self._buffer = b""
        self._buffer_first = 0
        # The entries of this check; a queue that is open grows meanwhile.
        self.position = first
        self.end = queue.max_offset
        self.lost = _Missing()
        self.beyond = _Missing()
        # A file of it was deleted while it was looked at, as happens to those that are old.
        self.is_shrinking = False

    def entry(self, number: int) -> Entry | None:
        at = (number - self._buffer_first) * ENTRY_SIZE
        if not 0 <= at < len(self._buffer):
            try:
                self._buffer = self._queue.read(number, min(self._ahead, self.end - number))
            except FileNotFoundError:
                self._buffer, self.is_shrinking = b"", True
            self._buffer_first, at = number, 0
            if len(self._buffer) < ENTRY_SIZE:
                return None
        return Entry._make(ENTRY.unpack_from(self._buffer, at))

    def pass_over(self, end: int) -> Iterator[tuple[int, Entry]]:
        """Yields the entries up to `end` that no record has asked for."""
        for number in range(self.position, end):
            entry = self.entry(number)
            if entry is not None and not entry.is_filler:
                yield number, entry


class QueueCheck:
    """Told of each record in the order of the log; needs memory for each queue, but not for each record."""

    def __init__(
        self, files: OpenFiles, root: Path, segment_size: int, report: Report, *, ext_segment_size: int
    ) -> None:
        self._files = files
        self._root = root
        self._segment_size = segment_size
        self._report = report
        self._units = UnitCheck(files, root / "consumequeue_ext", ext_segment_size, report)
        self._meter = Meter(None)
        self._cursors: dict[tuple[str, int], _Cursor] = {}
        self._absent: dict[tuple[str, int], _Missing] = {}
        self._deleted = DeletedTopics(files.disk, root / "config" / DELETED_TOPICS)
        # Of each topic whose queues are of another kind, how many records are batches.
        self._batches: dict[str, int] = {}

    def load(self) -> int:
        """Notes what is there now, before the log is read, and returns how many bytes of entries there are."""
        disk = self._files.disk
        directory = self._root / "consumequeue"
        try:
            self._deleted.load()
        except (StoreDamaged, OSError) as error:
            self._report.complain(f"config: {error}")
        found: dict[tuple[str, int], ConsumeQueue] = {}
        for topic in disk.names(directory):
            for number in disk.names(directory / topic):
                if number.isdigit():
                    queue = self._load(directory / topic / number)
                    if queue is not None:
                        found[topic, int(number)] = queue
        ahead = _AHEAD_SIZE // ENTRY_SIZE // max(1, len(found))
        ahead = min(max(ahead, _AHEAD_ENTRIES_MIN), _AHEAD_ENTRIES_MAX)
        for key, queue in found.items():
            self._cursors[key] = _Cursor(queue, queue.min_offset, ahead)
        self._units.load(set(found))
        self._batches = dict.fromkeys(batch_topics(disk, self._root), 0)
        self._report.queues = len(found)
        return sum(cursor.end - cursor.position for cursor in self._cursors.values()) * ENTRY_SIZE

    def _load(self, directory: Path) -> ConsumeQueue | None:
        queue = ConsumeQueue(Segments(self._files, directory, self._segment_size))
        try:
            queue.load()
        except (StoreDamaged, OSError) as error:
            self._report.complain_if_clean(f"queue {directory.parent.name}/{directory.name}: {error}")
            return None
        return queue

    def begin(self, meter: Meter) -> None:
        self._meter = meter

    def max_offsets(self) -> dict[tuple[str, int], int]:
        """Returns where each queue ends."""
        return {key: cursor.end for key, cursor in self._cursors.items()}

    def see(self, record: Peek) -> None:
        if not sysflag.is_queued(record.sys_flag):
            return
        if record.sys_flag & sysflag.INNER_BATCH:
            self._batches[record.topic] = self._batches.get(record.topic, 0) + 1
        if record.topic in self._batches:
            return
        if self._deleted.covers(record.topic, record.physical_offset):
            # It went with its topic, and has no entry any more.
            return
        cursor = self._cursors.get((record.topic, record.queue_id))
        if cursor is None:
            self._absent.setdefault((record.topic, record.queue_id), _Missing()).add(record)
            return
        number = record.queue_offset
        if number >= cursor.end:
            cursor.beyond.add(record)
            return
        entry = cursor.entry(number) if number >= cursor.position else None
        if entry is None or entry.physical_offset != record.physical_offset or entry.is_filler:
            cursor.lost.add(record)
            return
        if number == 0 and (cursor.lost.count or cursor.beyond.count):
            # The topic was deleted and made again; what it had before has no entries.
            self._note_former(record, cursor)
        self._compare(number, entry, record)
        for passed, other in cursor.pass_over(number):
            self._complain_of_stray(record.topic, record.queue_id, passed, other)
        self._advance(cursor, number + 1)

    def _advance(self, cursor: _Cursor, position: int) -> None:
        self._report.entries += position - cursor.position
        self._meter.add((position - cursor.position) * ENTRY_SIZE)
        cursor.position = position

    def _compare(self, number: int, entry: Entry, record: Peek) -> None:
        where = f"queue {record.topic}/{record.queue_id}: entry {number}"
        if entry.size != record.size:
            self._report.complain(f"{where} tells of {entry.size} bytes, and the record has {record.size}")
        is_code = record.topic != SCHEDULE_TOPIC
        if is_address(entry.tags_code):
            self._units.compare(where, entry.tags_code, record, record.tags_code if is_code else None)
        elif is_code and entry.tags_code != record.tags_code:
            self._report.complain(f"{where} has tags code {entry.tags_code}, and the record {record.tags_code}")

    def _note_former(self, record: Peek, cursor: _Cursor) -> None:
        count = cursor.lost.count + cursor.beyond.count
        self._report.notes.append(
            f"queue {record.topic}/{record.queue_id}: began again at {record.physical_offset}; "
            f"{count} older records have no entry"
        )
        cursor.lost, cursor.beyond = _Missing(), _Missing()

    def end(self, topics: Collection[str] | None) -> None:
        """Looks at the entries that are left, and says what is missing. `topics` are those that still exist."""
        for topic, count in sorted(self._batches.items()):
            self._report.notes.append(
                f"topic {topic}: {count} records are batches (queue.type=BatchCQ), which nobody can consume here; "
                "consume them where they were written"
            )
        for (topic, queue_id), cursor in self._cursors.items():
            if topic.startswith(_LIGHT_PREFIX):
                self._report.notes.append(f"queue {topic}/{queue_id}: points to records of other topics")
                self._advance(cursor, cursor.end)
                continue
            if topic in self._batches:
                self._advance(cursor, cursor.end)
                continue
            for number, entry in cursor.pass_over(cursor.end):
                self._complain_of_stray(topic, queue_id, number, entry)
            self._advance(cursor, cursor.end)
            if cursor.lost.count and not (cursor.is_shrinking and not self._report.is_clean):
                self._report.complain(_without_entry(topic, queue_id, cursor.lost))
            if cursor.beyond.count:
                self._report.complain_if_clean(_without_entry(topic, queue_id, cursor.beyond))
        for (topic, queue_id), missing in self._absent.items():
            text = _without_entry(topic, queue_id, missing)
            if topics is not None and topic not in topics:
                self._report.notes.append(f"{text}, and there is no such topic any more")
            else:
                self._report.complain_if_clean(text)

    def _complain_of_stray(self, topic: str, queue_id: int, number: int, entry: Entry) -> None:
        report = self._report
        if entry.physical_offset < report.first_offset or topic.startswith(_LIGHT_PREFIX):
            return
        if not report.is_clean and entry.physical_offset >= report.end_offset > 0:
            # Its record was written after the end of the log was seen.
            return
        report.complain(
            f"queue {topic}/{queue_id}: entry {number} points to {entry.physical_offset}, and no such record lies there"
        )


def _without_entry(topic: str, queue_id: int, missing: _Missing) -> str:
    return f"queue {topic}/{queue_id}: {missing.count} records have no entry, the first lies at {missing.first}"
