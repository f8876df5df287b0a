"""Verifies all files of a store without changing them (`kerolox store check`)."""

from collections.abc import Iterator

from kerolox.message.records.summary import RecordSummary
from kerolox.runtime.files import Disk
from kerolox.store.check.index import IndexCheck
from kerolox.store.check.queues import QueueCheck
from kerolox.store.check.read_only_disk import ReadOnlyDisk
from kerolox.store.check.report import Meter, Progress, Report
from kerolox.store.check.tables import CheckpointCheck, TableCheck
from kerolox.store.check.timer import TimerCheck
from kerolox.store.config import StoreConfig
from kerolox.store.index.layout import IndexShape
from kerolox.store.log.scan import Scan
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.timer.wheel import SLOTS


def check(
    config: StoreConfig, progress: Progress | None = None, *, disk: Disk | None = None, wheel_slots: int = SLOTS
) -> Report:
    """Read all files once and report where they do not agree.

    StoreDamaged if the files of the log are not contiguous. The store may be in use: data that is not written behind
    the log yet, or that is written or deleted during the check, is not reported as a complaint.
    """
    read_only = ReadOnlyDisk(disk)
    root = config.store_path_root_dir
    report = Report(is_clean=read_only.read(root / "abort") is None)
    files = OpenFiles(read_only, config.open_files_max)
    timer = TimerCheck(read_only, config, report, slots=wheel_slots)
    try:
        # In this order: every entry that queues and index have now will be found in the log.
        queues = QueueCheck(
            files,
            root,
            config.mapped_file_size_consume_queue,
            report,
            ext_segment_size=config.mapped_file_size_consume_queue_ext,
        )
        queues_size = queues.load()
        shape = IndexShape(config.max_hash_slot_num, config.max_index_num)
        index = IndexCheck(read_only, root / "index", shape, report)
        index_size = index.load()
        checkpoint = CheckpointCheck(read_only, root / "checkpoint", report)
        checkpoint.load()
        tables = TableCheck(read_only, root / "config", report)
        tables.load()
        tables.check_queue_types(root)
        timer_size = timer.load()
        segments = Segments(files, config.commit_log_directory, config.mapped_file_size_commit_log)
        segments.load()
        report.first_offset = segments.first_offset
        log_size = segments.end_offset - segments.first_offset
        meter = Meter(progress, queues_size + index_size + timer_size + log_size)
        queues.begin(meter)
        index.begin(meter)
        for record in LogCheck(segments, report, meter).records():
            queues.check_record(record)
            index.check_record(record)
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
    """Reads the log and reports damage."""

    def __init__(self, segments: Segments, report: Report, meter: Meter) -> None:
        self._segments = segments
        self._report = report
        self._meter = meter

    def records(self) -> Iterator[RecordSummary]:
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
        """Report damage; or returns where to resume, if the record was just being written."""
        damage = scan.damages.pop()
        if not self._report.is_clean and isinstance(Scan(self._segments).record_at(damage.offset), RecordSummary):
            return damage.offset
        self._report.complain(f"log: no record from {damage.offset} to {damage.end_offset}: {damage.reason}")
        return None

    def _after_deletion(self, offset: int) -> int:
        """Return where to resume after the oldest files were deleted; FileNotFoundError if it was not that."""
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
            text = f"log: ends at {torn.offset}, followed by invalid data up to {torn.end_offset}: {torn.reason}"
            self._report.complain_if_clean(text)
