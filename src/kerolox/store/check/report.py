"""The report of a store check, and its progress."""

from collections.abc import Callable

import msgspec

# Called with the number of bytes checked so far, and in all.
Progress = Callable[[int, int], None]

# A badly damaged store may have as many complaints as records; from here on they are only counted.
COMPLAINTS_MAX = 1000


class Report(msgspec.Struct):
    """A store is whole if there are no complaints. Notes are informative and not errors. The CLI prints it as JSON."""

    records: int = 0
    bytes: int = 0
    first_offset: int = 0
    end_offset: int = 0
    last_timestamp: int = 0
    queues: int = 0
    entries: int = 0
    # ConsumeQueueExt units that queue entries point to.
    units: int = 0
    index_files: int = 0
    index_entries: int = 0
    tables: int = 0
    timer_units: int = 0
    # Slots of the timer wheel with pending messages.
    timer_slots: int = 0
    # False if the store is open, or the next start will recover it.
    is_clean: bool = True
    complaints: list[str] = []
    complaints_left_out: int = 0
    notes: list[str] = []

    @property
    def is_whole(self) -> bool:
        return not self.complaints

    def complain(self, complaint: str) -> None:
        if len(self.complaints) < COMPLAINTS_MAX:
            self.complaints.append(complaint)
        else:
            self.complaints_left_out += 1

    def complain_if_clean(self, finding: str) -> None:
        """Add a complaint if the store was stopped cleanly, else a note: an open store may still write it."""
        if self.is_clean:
            self.complain(finding)
        else:
            self.notes.append(finding)


class Meter:
    """Adds up the progress of several readers, and reports it now and then."""

    def __init__(self, progress: Progress | None, total: int = 0) -> None:
        self._progress = progress
        self._reported = 0
        self.total = total
        self.done = 0

    def add(self, size: int) -> None:
        self.done += size
        # About 500 reports in all: smooth enough, and cheap.
        if self._progress is not None and (self.done - self._reported) * 500 >= self.total:
            self._reported = self.done
            self._progress(min(self.done, self.total), self.total)

    def end(self) -> None:
        if self._progress is not None:
            self._progress(self.total, self.total)
