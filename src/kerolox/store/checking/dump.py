"""Reads what is in a store's log, record by record, without changing a byte of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from kerolox.message.errors import RecordError
from kerolox.message.message import Message
from kerolox.message.peek import Peek
from kerolox.message.record import decode
from kerolox.runtime.files import Disk
from kerolox.store.checking.read_only import ReadOnlyDisk
from kerolox.store.configuration import StoreConfig
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.scan import Scan
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.consume_queue import ConsumeQueue


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records to show; what is None or empty is not asked for."""

    topic: str | None = None
    queue_id: int | None = None
    # In the queue.
    queue_offset: int | None = None
    key: bytes | None = None
    # In the log.
    start_offset: int = 0
    end_offset: int | None = None

    def has(self, record: Peek) -> bool:
        return (
            (self.topic is None or record.topic == self.topic)
            and (self.queue_id is None or record.queue_id == self.queue_id)
            and (self.queue_offset is None or record.queue_offset >= self.queue_offset)
            and (self.key is None or self.key == record.unique_key or self.key in record.keys.split(b" "))
        )


def dump(config: StoreConfig, wanted: Wanted | None = None, *, disk: Disk | None = None) -> Iterator[Message]:
    """Yields messages in the order of the log; of one queue they are found by its entries, else the log is read.

    What is damaged is left out.
    """
    wanted = wanted or Wanted()
    files = OpenFiles(ReadOnlyDisk(disk), config.open_files_max)
    try:
        segments = Segments(files, config.commit_log_directory, config.mapped_file_size_commit_log)
        segments.load()
        for record in _of_queue(config, files, segments, wanted) or _of_log(segments, wanted):
            if wanted.end_offset is not None and record.physical_offset >= wanted.end_offset:
                break
            if wanted.has(record):
                yield decode(segments.read(record.physical_offset, record.size))
    finally:
        files.close()


def _of_log(segments: Segments, wanted: Wanted) -> Iterator[Peek]:
    # A record can only be found from the beginning of its file on.
    start = max(segments.first_offset, segments.start_of(wanted.start_offset))
    for record, offset in Scan(segments).records(start):
        if offset >= wanted.start_offset:
            yield record


def _of_queue(config: StoreConfig, files: OpenFiles, segments: Segments, wanted: Wanted) -> Iterator[Peek] | None:
    """Returns the records of a queue by its entries, or None if that is not what is wanted, or it has none."""
    if wanted.topic is None or wanted.queue_id is None or "/" in wanted.topic:
        return None
    directory = config.store_path_root_dir / "consumequeue" / wanted.topic / str(wanted.queue_id)
    queue = ConsumeQueue(Segments(files, directory, config.mapped_file_size_consume_queue))
    try:
        queue.load()
    except (StoreDamaged, OSError):
        return None
    if queue.max_offset == queue.min_offset:
        return None
    return _records(queue, Scan(segments), max(queue.min_offset, wanted.queue_offset or 0), wanted)


def _records(queue: ConsumeQueue, scan: Scan, first: int, wanted: Wanted) -> Iterator[Peek]:
    for entry in queue.entries(first, queue.max_offset - first):
        if not entry.is_filler and entry.physical_offset >= wanted.start_offset:
            try:
                record = scan.record_at(entry.physical_offset)
            except RecordError:
                continue
            if isinstance(record, Peek):
                yield record
