"""Verifies a store from end to end, without changing a byte of it."""

from collections.abc import Iterator

from kerolox.message.peek import Peek
from kerolox.runtime.files import Disk
from kerolox.store.checking.index import IndexCheck
from kerolox.store.checking.queues import QueueCheck
from kerolox.store.checking.read_only import ReadOnlyDisk
from kerolox.store.checking.report import Meter, Progress, Report
from kerolox.store.checking.tables import CheckpointCheck, TableCheck
from kerolox.store.checking.timer import TimerCheck
from kerolox.store.configuration import StoreConfig
from kerolox.store.keys.index_layout import IndexShape
from kerolox.store.log.scan import Scan
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.timer.wheel import SLOTS


def check(
    config: StoreConfig, progress: Progress | None = None, *, disk: Disk | None = None, wheel_slots: int = SLOTS
) -> Report:
    """Reads log, queues, index, checkpoint, tables and the timer's files once, and says where they do not agree.

    StoreDamaged if the files of the log do not follow each other. A store may be in use meanwhile: what is not yet
    written behind the log, and what is written or deleted while it is looked at, is no complaint.
    """
    looking = ReadOnlyDisk(disk)
    root = config.store_path_root_dir
    report = Report(is_clean=looking.read(root / "abort") is None)
    files = OpenFiles(looking, config.open_files_max)
    timer = TimerCheck(looking, config, report, slots=wheel_slots)
    try:
        # In this order: what is in the queues and the index now will be found in the log.
        queues = QueueCheck(
            files,
            root,
            config.mapped_file_size_consume_queue,
            report,
            ext_segment_size=config.mapped_file_size_consume_queue_ext,
        )
        queues_size = queues.load()
        shape = IndexShape(config.max_hash_slot_num, config.max_index_num)
        index = IndexCheck(looking, root / "index", shape, report)
        index_size = index.load()
        checkpoint = CheckpointCheck(looking, root / "checkpoint", report)
        checkpoint.load()
        tables = TableCheck(looking, root / "config", report)
        tables.load()
        timer_size = timer.load()
        segments = Segments(files, config.commit_log_directory, config.mapped_file_size_commit_log)
        segments.load()
        report.first_offset = segments.first_offset
        log_size = segments.end_offset - segments.first_offset
        meter = Meter(progress, queues_size + index_size + timer_size + log_size)
        queues.begin(meter)
        index.begin(meter)
        for record in LogCheck(segments, report, meter).records():
            queues.see(record)
            index.see(record)
        queues.end(tables.topics)
        index.end()
        tables.compare_offsets(queues.max_offsets())
        checkpoint.compare(index.end_timestamp)
        timer.compare(segments, queues.max_offsets(), meter)
        meter.end()
    finally:
        timer.close()
        files.close()
    return report


class LogCheck:
    """Goes through the log, and notes how it is."""

    def __init__(self, segments: Segments, report: Report, meter: Meter) -> None:
        self._segments = segments
        self._report = report
        self._meter = meter

    def records(self) -> Iterator[Peek]:
        report = self._report
        offset = self._segments.first_offset
        while True:
            scan = Scan(self._segments)
            resume: int | None = None
            try:
                for record, at in scan.records(offset):
                    if scan.damages:
                        resume = self._resume(scan)
                        if resume is not None:
                            break
                    report.records += 1
                    report.bytes += record.size
                    report.last_timestamp = max(report.last_timestamp, record.store_timestamp)
                    self._meter.add(at + record.size - offset)
                    offset = at + record.size
                    yield record
            except FileNotFoundError:
                resume = self._after_deletion(offset)
            if resume is None:
                break
            offset = resume
        self._end(scan)

    def _resume(self, scan: Scan) -> int | None:
        """Tells of a damage; or returns where to go on reading, if it was a record that was just being written."""
        damage = scan.damages.pop()
        if not self._report.is_clean and isinstance(Scan(self._segments).record_at(damage.offset), Peek):
            return damage.offset
        self._report.complain(f"log: no record from {damage.offset} to {damage.end_offset}: {damage.reason}")
        return None

    def _after_deletion(self, offset: int) -> int:
        """Returns where to go on after the oldest files were deleted; FileNotFoundError if it was not that."""
        self._segments.load()
        first = self._segments.first_offset
        if first <= offset:
            raise FileNotFoundError(f"{self._segments.path_of(offset)} is missing")
        self._report.notes.append(f"log: deleted up to {first} while it was read")
        self._report.first_offset = first
        return first

    def _end(self, scan: Scan) -> None:
        self._report.end_offset = scan.end_offset
        if scan.torn is not None:
            torn = scan.torn
            text = f"log: ends at {torn.offset} with something up to {torn.end_offset}: {torn.reason}"
            self._report.complain_if_clean(text)
