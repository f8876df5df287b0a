"""Compares ConsumeQueueExt units with the records of their entries."""

from collections import OrderedDict
from pathlib import Path

from kerolox.message.records.summary import RecordSummary
from kerolox.store.check.report import Report
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.queue_ext import QueueExt

# Queues that may keep read-ahead units in memory, 16 KiB each.
_READ_AHEAD_MAX = 1024


class QueueExtCheck:
    """Checks one unit per queue entry; uses memory per queue, not per unit."""

    def __init__(self, files: OpenFiles, directory: Path, segment_size: int, report: Report) -> None:
        self._files = files
        self._directory = directory
        self._segment_size = segment_size
        self._report = report
        self._units: dict[tuple[str, int], QueueExt | None] = {}
        self._recent: OrderedDict[tuple[str, int], QueueExt] = OrderedDict()

    def load(self, queues: set[tuple[str, int]]) -> None:
        """Load the files of these queues, and note directories that belong to none of them."""
        disk = self._files.disk
        strays = 0
        for topic in disk.names(self._directory):
            for number in disk.names(self._directory / topic):
                key = topic, int(number) if number.isdigit() else -1
                if key in queues:
                    self._units[key] = self._load(self._directory / topic / number)
                else:
                    strays += 1
        if strays:
            self._report.notes.append(f"units: {strays} directories belong to no queue")

    def _load(self, directory: Path) -> QueueExt | None:
        units = QueueExt(Segments(self._files, directory, self._segment_size))
        try:
            units.load()
        except (StoreDamaged, OSError) as error:
            self._report.complain_if_clean(f"units {directory.parent.name}/{directory.name}: {error}")
            return None
        return units

    def compare(self, where: str, address: int, record: RecordSummary, tags_code: int | None) -> None:
        """Report what is wrong with the unit at an address. `tags_code` is None if it cannot be compared."""
        key = record.topic, record.queue_id
        units = self._units.get(key)
        try:
            unit = None if units is None else units.unit(address)
        except FileNotFoundError:
            # Expired and deleted during the check.
            if not self._report.is_clean:
                return
            unit = None
        if units is not None:
            self._note_read(key, units)
        if unit is None:
            self._report.complain_if_clean(f"{where} points to a unit at {address + 2**63}, but there is none")
            return
        self._report.units += 1
        if tags_code is not None and unit.tags_code != tags_code:
            self._report.complain(f"{where} has a unit with tags code {unit.tags_code}, but the record has {tags_code}")
        if unit.store_timestamp != record.store_timestamp:
            self._report.complain(
                f"{where} has a unit stored at {unit.store_timestamp}, but the record at {record.store_timestamp}"
            )

    def _note_read(self, key: tuple[str, int], units: QueueExt) -> None:
        self._recent[key] = units
        self._recent.move_to_end(key)
        if len(self._recent) > _READ_AHEAD_MAX:
            self._recent.popitem(last=False)[1].drop_cache()
