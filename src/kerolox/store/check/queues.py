"""Compares consume queues with the log: each record must have its entry, and each entry its record."""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from kerolox.message import sysflag
from kerolox.message.records.summary import RecordSummary
from kerolox.store.check.queue_ext import QueueExtCheck
from kerolox.store.check.report import Meter, Report
from kerolox.store.cleanup.deleted_topics import DELETED_TOPICS, DeletedTopics
from kerolox.store.delay.delay_levels import SCHEDULE_TOPIC
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue, Entry
from kerolox.store.queue.queue_ext import is_address
from kerolox.store.queue.queue_types import batch_topics

# Read-ahead of all cursors together.
_AHEAD_SIZE = 64 * 1024 * 1024
_AHEAD_ENTRIES_MIN, _AHEAD_ENTRIES_MAX = 16, 4096
# Light message queues (LMQ): their entries point to records of other topics.
_LIGHT_PREFIX = "%LMQ%"


class _Missing(msgspec.Struct):
    """Records without an entry: their number, and the position of the first."""

    count: int = 0
    first: str = ""

    def add(self, record: RecordSummary) -> None:
        if not self.count:
            self.first = f"{record.physical_offset} ({record.topic}/{record.queue_id}/{record.queue_offset})"
        self.count += 1


class _Cursor:
    """Walks the entries of one queue in step with its records, with bounded read-ahead."""

    def __init__(self, queue: ConsumeQueue, first: int, ahead: int) -> None:
        self._queue = queue
        self._ahead = ahead
        self._buffer = b""
        self._buffer_first = 0
        # The end at the start of the check; an open queue grows meanwhile.
        self.position = first
        self.end = queue.max_offset
        self.lost = _Missing()
        self.beyond = _Missing()
        # A file of it expired and was deleted during the check.
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
        """Yield the entries before `end` that no record has matched."""
        for number in range(self.position, end):
            entry = self.entry(number)
            if entry is not None and not entry.is_filler:
                yield number, entry


class QueueCheck:
    """Gets each record in log order; uses memory per queue, not per record."""

    def __init__(
        self, files: OpenFiles, root: Path, segment_size: int, report: Report, *, ext_segment_size: int
    ) -> None:
        self._files = files
        self._root = root
        self._segment_size = segment_size
        self._report = report
        self._units = QueueExtCheck(files, root / "consumequeue_ext", ext_segment_size, report)
        self._meter = Meter(None)
        self._cursors: dict[tuple[str, int], _Cursor] = {}
        self._without_queue: dict[tuple[str, int], _Missing] = {}
        self._deleted = DeletedTopics(files.disk, root / "config" / DELETED_TOPICS)
        # Topic with batch queues → number of its records that are inner batches.
        self._batches: dict[str, int] = {}

    def load(self) -> int:
        """Load the queues before the log is read; return the bytes of their entries."""
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
        """Return the end of each queue."""
        return {key: cursor.end for key, cursor in self._cursors.items()}

    def check_record(self, record: RecordSummary) -> None:
        if not sysflag.is_queued(record.sys_flag):
            return
        if record.sys_flag & sysflag.INNER_BATCH:
            self._batches[record.topic] = self._batches.get(record.topic, 0) + 1
        if record.topic in self._batches:
            return
        if self._deleted.covers(record.topic, record.physical_offset):
            # Deleted with its topic.
            return
        cursor = self._cursors.get((record.topic, record.queue_id))
        if cursor is None:
            self._without_queue.setdefault((record.topic, record.queue_id), _Missing()).add(record)
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
            # The topic was deleted and recreated; its older records have no entries.
            self._note_recreated(record, cursor)
        self._compare(number, entry, record)
        for stray, other in cursor.pass_over(number):
            self._report_stray(record.topic, record.queue_id, stray, other)
        self._advance(cursor, number + 1)

    def _advance(self, cursor: _Cursor, position: int) -> None:
        self._report.entries += position - cursor.position
        self._meter.add((position - cursor.position) * ENTRY_SIZE)
        cursor.position = position

    def _compare(self, number: int, entry: Entry, record: RecordSummary) -> None:
        where = f"queue {record.topic}/{record.queue_id}: entry {number}"
        if entry.size != record.size:
            self._report.complain(f"{where} has a size of {entry.size}, but the record has {record.size} bytes")
        is_code = record.topic != SCHEDULE_TOPIC
        if is_address(entry.tags_code):
            self._units.compare(where, entry.tags_code, record, record.tags_code if is_code else None)
        elif is_code and entry.tags_code != record.tags_code:
            self._report.complain(f"{where} has tags code {entry.tags_code}, but the record has {record.tags_code}")

    def _note_recreated(self, record: RecordSummary, cursor: _Cursor) -> None:
        count = cursor.lost.count + cursor.beyond.count
        self._report.notes.append(
            f"queue {record.topic}/{record.queue_id}: recreated at {record.physical_offset}; "
            f"{count} older records have no entry"
        )
        cursor.lost, cursor.beyond = _Missing(), _Missing()

    def end(self, topics: Collection[str] | None) -> None:
        """Check the remaining entries and report missing ones. `topics` are those that still exist."""
        for topic, count in sorted(self._batches.items()):
            self._report.notes.append(
                f"topic {topic}: {count} records are inner batches (queue.type=BatchCQ), not supported here; "
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
                self._report_stray(topic, queue_id, number, entry)
            self._advance(cursor, cursor.end)
            if cursor.lost.count and not (cursor.is_shrinking and not self._report.is_clean):
                self._report.complain(_without_entry(topic, queue_id, cursor.lost))
            if cursor.beyond.count:
                self._report.complain_if_clean(_without_entry(topic, queue_id, cursor.beyond))
        for (topic, queue_id), missing in self._without_queue.items():
            text = _without_entry(topic, queue_id, missing)
            if topics is not None and topic not in topics:
                self._report.notes.append(f"{text}; the topic no longer exists")
            else:
                self._report.complain_if_clean(text)

    def _report_stray(self, topic: str, queue_id: int, number: int, entry: Entry) -> None:
        report = self._report
        if entry.physical_offset < report.first_offset or topic.startswith(_LIGHT_PREFIX):
            return
        if not report.is_clean and entry.physical_offset >= report.end_offset > 0:
            # Its record was written after the log was read.
            return
        report.complain(
            f"queue {topic}/{queue_id}: entry {number} points to {entry.physical_offset}, but there is no such record"
        )


def _without_entry(topic: str, queue_id: int, missing: _Missing) -> str:
    return f"queue {topic}/{queue_id}: {missing.count} records have no entry, the first is at {missing.first}"
