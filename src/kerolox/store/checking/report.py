"""What a check of a store has found."""

from collections.abc import Callable

import msgspec

# Told how many bytes have been looked at so far, and how many there are in all.
Progress = Callable[[int, int], None]

# A ruined store has as many complaints as records; from here on they are only counted.
COMPLAINTS_MAX = 1000


class Report(msgspec.Struct):
    """A store is whole if there are no complaints. Notes are worth knowing, and nothing is wrong with them."""

    records: int = 0
    bytes: int = 0
    first_offset: int = 0
    end_offset: int = 0
    last_timestamp: int = 0
    queues: int = 0
    entries: int = 0
    # Beside queues (ConsumeQueueExt), as far as an entry speaks of them.
    units: int = 0
    index_files: int = 0
    index_entries: int = 0
    tables: int = 0
    timer_units: int = 0
    # Moments at which a timer message is still to come.
    timer_slots: int = 0
    # Stopped cleanly: else it is open at this moment, or the next start will recover it.
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
        """Notes what is wrong only in a store that was stopped cleanly; an open one is not yet done with it."""
        if self.is_clean:
            self.complain(finding)
        else:
            self.notes.append(finding)


class Meter:
    """Adds up what several readers have looked at, and tells of it every so often."""

    def __init__(self, progress: Progress | None, total: int = 0) -> None:
        self._progress = progress
        self._told = 0
        self.total = total
        self.done = 0

    def add(self, size: int) -> None:
        self.done += size
        # Hundreds of times in all: enough for the eye, and nothing for the time.
        if self._progress is not None and (self.done - self._told) * 500 >= self.total:
            self._told = self.done
            self._progress(min(self.done, self.total), self.total)

    def end(self) -> None:
        if self._progress is not None:
            self._progress(self.total, self.total)
