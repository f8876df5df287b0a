"""Dumps the messages of a commit log without changing the store (`kerolox store dump`)."""

from collections.abc import Iterator
from dataclasses import dataclass

from kerolox.message.errors import RecordError
from kerolox.message.message import Message
from kerolox.message.records.record import decode
from kerolox.message.records.summary import RecordSummary
from kerolox.runtime.files import Disk
from kerolox.store.check.read_only_disk import ReadOnlyDisk
from kerolox.store.config import StoreConfig
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.scan import Scan
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.consume_queue import ConsumeQueue


@dataclass(frozen=True, slots=True)
class DumpFilter:
    """Selects records; fields that are None match all."""

    topic: str | None = None
    queue_id: int | None = None
    # Minimum queue offset.
    queue_offset: int | None = None
    key: bytes | None = None
    # Range of physical offsets.
    start_offset: int = 0
    end_offset: int | None = None

    def matches(self, record: RecordSummary) -> bool:
        return (
            (self.topic is None or record.topic == self.topic)
            and (self.queue_id is None or record.queue_id == self.queue_id)
            and (self.queue_offset is None or record.queue_offset >= self.queue_offset)
            and (self.key is None or self.key == record.unique_key or self.key in record.keys.split(b" "))
        )


def dump(config: StoreConfig, selected: DumpFilter | None = None, *, disk: Disk | None = None) -> Iterator[Message]:
    """Yield messages in log order. For a single queue its entries are used, otherwise the log is scanned.

    Damaged records are skipped.
    """
    selected = selected or DumpFilter()
    files = OpenFiles(ReadOnlyDisk(disk), config.open_files_max)
    try:
        segments = Segments(files, config.commit_log_directory, config.mapped_file_size_commit_log)
        segments.load()
        for record in _of_queue(config, files, segments, selected) or _of_log(segments, selected):
            if selected.end_offset is not None and record.physical_offset >= selected.end_offset:
                break
            if selected.matches(record):
                yield decode(segments.read(record.physical_offset, record.size))
    finally:
        files.close()


def _of_log(segments: Segments, selected: DumpFilter) -> Iterator[RecordSummary]:
    # Records can only be found by scanning from the start of a file.
    start = max(segments.first_offset, segments.start_of(selected.start_offset))
    for record, offset in Scan(segments).records(start):
        if offset >= selected.start_offset:
            yield record


def _of_queue(
    config: StoreConfig, files: OpenFiles, segments: Segments, selected: DumpFilter
) -> Iterator[RecordSummary] | None:
    """Return the records of a queue by its entries; None if no queue is selected, or it has no entries."""
    if selected.topic is None or selected.queue_id is None or "/" in selected.topic:
        return None
    directory = config.store_path_root_dir / "consumequeue" / selected.topic / str(selected.queue_id)
    queue = ConsumeQueue(Segments(files, directory, config.mapped_file_size_consume_queue))
    try:
        queue.load()
    except (StoreDamaged, OSError):
        return None
    if queue.max_offset == queue.min_offset:
        return None
    return _records(queue, Scan(segments), max(queue.min_offset, selected.queue_offset or 0), selected)


def _records(queue: ConsumeQueue, scan: Scan, first: int, selected: DumpFilter) -> Iterator[RecordSummary]:
    for entry in queue.entries(first, queue.max_offset - first):
        if not entry.is_filler and entry.physical_offset >= selected.start_offset:
            try:
                record = scan.record_at(entry.physical_offset)
            except RecordError:
                continue
            if isinstance(record, RecordSummary):
                yield record
