"""Verifies a store from end to end, without changing a byte of it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from kerolox.message import sysflag
from kerolox.message.peek import Peek
from kerolox.runtime.files import RealDisk, RealFile
from kerolox.store.configuration import StoreConfig
from kerolox.store.consume_queue import ConsumeQueue, Entry
from kerolox.store.deleted_topics import DELETED_TOPICS, DeletedTopics
from kerolox.store.errors import StoreDamaged
from kerolox.store.scan import Scan
from kerolox.store.segments import OpenFiles, Segments

# Told how many bytes of the log have been read so far, and how many there are.
Progress = Callable[[int, int], None]


class ReadOnlyDisk(RealDisk):
    """A disk on which nothing can be changed."""

    def open(self, path: Path, *, create: bool = False) -> RealFile:
        return RealFile(path, os.O_RDONLY | os.O_CLOEXEC)

    def write(self, path: Path, data: bytes) -> None:
        raise _refused(path)

    def rename(self, source: Path, target: Path) -> None:
        raise _refused(target)

    def remove(self, path: Path) -> None:
        raise _refused(path)

    def remove_directory(self, path: Path) -> None:
        raise _refused(path)

    def make_directory(self, path: Path, *, is_durable: bool = True) -> None:
        raise _refused(path)


class Report(msgspec.Struct):
    """What was found; a store is whole if there are no complaints."""

    records: int = 0
    bytes: int = 0
    queues: int = 0
    entries: int = 0
    first_offset: int = 0
    end_offset: int = 0
    is_clean: bool = True
    complaints: list[str] = []


class _Log:
    """The commit log, opened for reading only."""

    def __init__(self, config: StoreConfig) -> None:
        self.files = OpenFiles(ReadOnlyDisk(), config.open_files_max)
        self.segments = Segments(self.files, config.commit_log_directory, config.mapped_file_size_commit_log)
        self.segments.load()
        self.scan = Scan(self.segments)
        self.deleted = DeletedTopics(self.files.disk, config.store_path_root_dir / "config" / DELETED_TOPICS)
        self.deleted.load()

    def records(self, progress: Progress | None = None) -> Iterator[tuple[Peek, int]]:
        total = self.segments.end_offset - self.segments.first_offset
        for record, offset in self.scan.records(self.segments.first_offset):
            yield record, offset
            if progress is not None:
                progress(offset + record.size - self.segments.first_offset, total)


def dump(config: StoreConfig, start_offset: int = 0) -> Iterator[Peek]:
    """Yields what is in each record of the log from `start_offset` on."""
    log = _Log(config)
    try:
        for record, offset in log.records():
            if offset >= start_offset:
                yield record
    finally:
        log.files.close()


def check(config: StoreConfig, progress: Progress | None = None) -> Report:
    """Reads every record and every entry, and says where they do not agree. StoreDamaged if there is no log to read."""
    report = Report(is_clean=not (config.store_path_root_dir / "abort").exists())
    log = _Log(config)
    try:
        expected = _check_log(log, report, progress)
        _check_queues(config, log, expected, report)
    finally:
        log.files.close()
    return report


# Topic, queue id and queue offset of a record, by where it lies.
_Expected = dict[int, tuple[str, int, int]]


def _check_log(log: _Log, report: Report, progress: Progress | None) -> _Expected:
    expected: _Expected = {}
    for record, offset in log.records(progress):
        report.records += 1
        report.bytes += record.size
        if sysflag.is_queued(record.sys_flag) and not log.deleted.covers(record.topic, offset):
            expected[offset] = record.topic, record.queue_id, record.queue_offset
    report.first_offset, report.end_offset = log.segments.first_offset, log.scan.end_offset
    for damage in log.scan.damages:
        report.complaints.append(f"log: no record from {damage.offset} to {damage.end_offset}: {damage.reason}")
    if log.scan.torn is not None:
        torn = log.scan.torn
        report.complaints.append(f"log: ends at {torn.offset} with something up to {torn.end_offset}: {torn.reason}")
    return expected


def _check_queues(config: StoreConfig, log: _Log, expected: _Expected, report: Report) -> None:
    directory = config.store_path_root_dir / "consumequeue"
    disk = log.files.disk
    for topic in disk.names(directory):
        for number in disk.names(directory / topic):
            if not number.isdigit():
                continue
            segments = Segments(log.files, directory / topic / number, config.mapped_file_size_consume_queue)
            queue = ConsumeQueue(segments)
            try:
                queue.load()
            except (StoreDamaged, OSError) as error:
                report.complaints.append(f"queue {topic}/{number}: {error}")
                continue
            report.queues += 1
            _check_queue(topic, int(number), queue, expected, report)
    missing = len(expected)
    if missing:
        offset, place = next(iter(expected.items()))
        first = "{}/{}/{}".format(*place)
        report.complaints.append(f"queues: {missing} records have no entry, the first lies at {offset} ({first})")


def _check_queue(topic: str, queue_id: int, queue: ConsumeQueue, expected: _Expected, report: Report) -> None:
    first = queue.min_offset
    for number, entry in enumerate(queue.entries(first, queue.max_offset - first), first):
        report.entries += 1
        if entry.is_filler or entry.physical_offset < report.first_offset:
            continue
        wanted = expected.pop(entry.physical_offset, None)
        if wanted != (topic, queue_id, number):
            report.complaints.append(_mismatch(topic, queue_id, number, entry, wanted))


def _mismatch(topic: str, queue_id: int, number: int, entry: Entry, wanted: tuple[str, int, int] | None) -> str:
    found = "no record lies there" if wanted is None else "the record there is of {}/{}/{}".format(*wanted)
    return f"queue {topic}/{queue_id}: entry {number} points to {entry.physical_offset}, and {found}"


def _refused(path: Path) -> OSError:
    return OSError(f"{path} was to be changed, and this store is only read")
