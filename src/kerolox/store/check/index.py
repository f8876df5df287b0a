"""Compares the key index with the log: file headers, entries, and the keys of all records."""

from array import array
from collections.abc import Iterator
from pathlib import Path

from kerolox.message import sysflag
from kerolox.message.properties import find
from kerolox.message.records.summary import TAGS_MARK, RecordSummary
from kerolox.message.tags import key_hash
from kerolox.runtime.files import Disk, File
from kerolox.store.check.report import Meter, Report
from kerolox.store.index.layout import ENTRY, HEADER, SLOT, IndexHeader, IndexShape

_NAME_DIGITS = 17
_READ_ENTRIES = 16384
_READ_SLOTS = 65536


class _Group:
    """The entries that point to one record."""

    __slots__ = ("hashes", "numbers", "path", "physical_offset")

    def __init__(self, path: Path, physical_offset: int) -> None:
        self.path = path
        self.physical_offset = physical_offset
        self.hashes: list[int] = []
        self.numbers: list[int] = []


class IndexCheck:
    """Gets each record in log order, which is also the order of the index.

    So both are read once, side by side; memory is needed for the slots of one file.
    """

    def __init__(self, disk: Disk, directory: Path, shape: IndexShape, report: Report) -> None:
        self._disk = disk
        self._directory = directory
        self._shape = shape
        self._report = report
        self._meter = Meter(None)
        self._files: list[tuple[Path, IndexHeader]] = []
        self._groups: Iterator[_Group] = iter(())
        self._group: _Group | None = None
        self._begin_offset = 0
        self._end_offset = -1
        self._missing = self._later = 0
        self._first_missing = ""
        # A file that cannot be read leaves a gap, which was reported already.
        self._has_gap = False
        self.end_timestamp = 0

    def load(self) -> int:
        """Load the headers before the log is read; return the number of bytes to check."""
        for name in self._disk.names(self._directory):
            if len(name) == _NAME_DIGITS and name.isdigit():
                self._load(self._directory / name)
        # Java names files by local time, so their names may be out of order.
        self._files.sort(key=lambda item: (item[1].begin_physical_offset, item[1].end_physical_offset))
        if self._files:
            self._begin_offset = self._files[0][1].begin_physical_offset
            self._end_offset = self._files[-1][1].end_physical_offset
            self.end_timestamp = self._files[-1][1].end_timestamp
        for (_, before), (path, header) in zip(self._files, self._files[1:], strict=False):
            if header.begin_physical_offset < before.end_physical_offset:
                self._report.complain(
                    f"index {path.name}: begins at {header.begin_physical_offset}, "
                    f"but the file before it ends at {before.end_physical_offset}"
                )
                self._has_gap = True
        self._report.index_files = len(self._files)
        entries = sum(header.next_entry - 1 for _, header in self._files)
        return entries * ENTRY.size + len(self._files) * self._shape.slots * SLOT.size

    def _load(self, path: Path) -> None:
        file = self._disk.open(path)
        try:
            size = file.size()
            data = file.read(0, HEADER.size)
        finally:
            file.close()
        if not any(data):
            # Created, but not used yet.
            return
        if size != self._shape.file_size:
            self._report.complain_if_clean(f"index {path.name}: has {size} bytes, expected {self._shape.file_size}")
            self._has_gap = True
            return
        header = IndexHeader.decode(data)
        if header.is_empty:
            return
        if not (header.next_entry <= self._shape.entries and header.begin_physical_offset >= 0):
            self._report.complain(f"index {path.name}: has an impossible header: {header}")
            self._has_gap = True
            return
        self._files.append((path, header))

    def begin(self, meter: Meter) -> None:
        self._meter = meter
        self._groups = self._all_groups()
        self._group = next(self._groups, None)

    def check_record(self, record: RecordSummary) -> None:
        offset = record.physical_offset
        while self._group is not None and self._group.physical_offset < offset:
            self._report_stray(self._group)
            self._group = next(self._groups, None)
        wanted = _hashes(record)
        found: set[int] = set()
        # The keys of one record may be in two files.
        while self._group is not None and self._group.physical_offset == offset:
            found.update(self._group.hashes)
            self._report_other_hashes(self._group, wanted, record)
            self._group = next(self._groups, None)
        if wanted - found:
            self._note_missing(record)

    def _note_missing(self, record: RecordSummary) -> None:
        offset = record.physical_offset
        if offset < self._begin_offset:
            return
        # The last record of an open index may lack some of its keys.
        if offset > self._end_offset or (offset == self._end_offset and not self._report.is_clean):
            self._later += 1
            return
        if not self._missing:
            self._first_missing = f"{offset} ({record.topic}/{record.queue_id}/{record.queue_offset})"
        self._missing += 1

    def end(self) -> None:
        """Check the remaining entries and report missing ones."""
        while self._group is not None:
            self._report_stray(self._group)
            self._group = next(self._groups, None)
        if self._missing and not self._has_gap:
            self._report.complain(
                f"index: {self._missing} records cannot be found by their keys, the first is at {self._first_missing}"
            )
        if self._later:
            self._report.notes.append(f"index: {self._later} records with keys come after its end")

    def _report_stray(self, group: _Group) -> None:
        report = self._report
        if group.physical_offset < report.first_offset:
            return
        if not report.is_clean and group.physical_offset >= report.end_offset > 0:
            return
        report.complain(
            f"index {group.path.name}: entry {group.numbers[0]} points to {group.physical_offset}, "
            "but no record begins there"
        )

    def _report_other_hashes(self, group: _Group, wanted: set[int], record: RecordSummary) -> None:
        for number, hashed in zip(group.numbers, group.hashes, strict=True):
            if hashed not in wanted and hashed != _tag_hash(record):
                self._report.complain(
                    f"index {group.path.name}: entry {number} has hash {hashed}, but the record of {record.topic} "
                    f"at {record.physical_offset} has no such key"
                )

    def _all_groups(self) -> Iterator[_Group]:
        for path, header in self._files:
            try:
                file = self._disk.open(path)
            except FileNotFoundError:
                # Expired and deleted during the check.
                self._has_gap = True
                continue
            try:
                yield from self._groups_of(file, header)
            finally:
                file.close()

    def _groups_of(self, file: File, header: IndexHeader) -> Iterator[_Group]:
        """Yield the entries grouped by record, while computing the expected slots."""
        name = file.path.name
        slots = array("i", bytes(self._shape.slots * SLOT.size))
        group = _Group(file.path, header.begin_physical_offset)
        number, seconds = 0, 0
        for number, (hashed, offset, seconds, previous) in enumerate(self._entries(file, header), 1):
            slot = hashed % self._shape.slots
            if hashed < 0 or seconds < 0 or offset < group.physical_offset or previous != slots[slot]:
                self._report.complain(f"index {name}: entry {number} is not consistent with the entries before it")
                self._has_gap = True
                return
            if offset != group.physical_offset:
                if number == 1:
                    self._report.complain(
                        f"index {name}: the first entry points to {offset}, the header to {group.physical_offset}"
                    )
                else:
                    yield group
                group = _Group(file.path, offset)
            group.hashes.append(hashed)
            group.numbers.append(number)
            slots[slot] = number
        if number != header.next_entry - 1:
            self._report.complain(f"index {name}: ends after {number} entries of {header.next_entry - 1}")
            self._has_gap = True
        if group.numbers:
            yield group
        self._compare_end(name, header, group.physical_offset, number, seconds)
        self._compare_slots(file, header, slots)

    def _entries(self, file: File, header: IndexHeader) -> Iterator[tuple[int, int, int, int]]:
        for first in range(1, header.next_entry, _READ_ENTRIES):
            count = min(_READ_ENTRIES, header.next_entry - first)
            data = file.read(self._shape.entries_position + first * ENTRY.size, count * ENTRY.size)
            self._meter.add(len(data))
            self._report.index_entries += len(data) // ENTRY.size
            yield from ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])
            if len(data) < count * ENTRY.size:
                return

    def _compare_end(self, name: str, header: IndexHeader, offset: int, count: int, seconds: int) -> None:
        if header.end_physical_offset != offset:
            self._report.complain(
                f"index {name}: the last entry points to {offset}, the header to {header.end_physical_offset}"
            )
        # The time of the first entry may be relative to the previous file.
        passed = max(0, header.end_timestamp - header.begin_timestamp) // 1000
        if count > 1 and header.begin_timestamp > 0 and passed != seconds:
            # A partly written header; the next start rebuilds the slots, and the next flush the header.
            self._report.complain_if_clean(
                f"index {name}: the last entry is {seconds} s after the first, but {passed} s by the header"
            )

    def _compare_slots(self, file: File, header: IndexHeader, slots: "array[int]") -> None:
        """Compare the expected slots with the file; those of an open file may be newer than the header."""
        used = wrong = 0
        for first in range(0, len(slots), _READ_SLOTS):
            expected = slots[first : first + _READ_SLOTS]
            used += len(expected) - expected.count(0)
            data = file.read(HEADER.size + first * SLOT.size, len(expected) * SLOT.size)
            self._meter.add(len(data))
            there = array("i", (number for (number,) in SLOT.iter_unpack(data)))
            if there != expected:
                wrong += sum(
                    number != wanted and (self._report.is_clean or number < header.next_entry)
                    for number, wanted in zip(there, expected, strict=True)
                )
        if wrong:
            self._report.complain(f"index {file.path.name}: {wrong} slots do not hold the newest of their entries")
        # Versions before 4.9 counted a slot each time it was used.
        if not used <= header.slots_used < header.next_entry:
            self._report.complain(
                f"index {file.path.name}: {used} slots are in use, but {header.slots_used} by the header"
            )


def _tag_hash(record: RecordSummary) -> int | None:
    """Return the hash under which 5.5 also indexes the tag of a record; other versions do not."""
    tag = find(record.properties, TAGS_MARK)
    return key_hash(record.topic, b"T#" + tag) if tag else None


def _hashes(record: RecordSummary) -> set[int]:
    if sysflag.transaction_type(record.sys_flag) == sysflag.ROLLBACK:
        return set()
    return {key_hash(record.topic, key) for key in (record.unique_key, *record.keys.split(b" ")) if key}
