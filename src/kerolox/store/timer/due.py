"""One slot of the wheel whose time has come: what is in its chain, oldest first, in steps of bounded work."""

import logging
from array import array
from collections.abc import Callable

from kerolox.store.timer.delivery import Timed
from kerolox.store.timer.timer_log import TimerLog, Unit

log = logging.getLogger(__name__)

_UNITS_MAX = 1000
_RECALLS_MAX = 100


class Due:
    """The chain leads from the newest to the oldest, so it is walked to its end before anything is delivered."""

    def __init__(self, time: int, last: int, timer_log: TimerLog, read: Callable[[Unit], Timed | None]) -> None:
        self.time = time
        self._log = timer_log
        self._read = read
        self._next = last
        # Positions in the timer log, newest first: eight bytes for each message, however many there are.
        self._waiting = array("q")
        self._recalls = array("q")
        # What is not to be delivered.
        self.recalled: set[bytes] = set()
        # Recalls that were read, to be counted as gone.
        self.recalls: list[Timed] = []

    def prepare(self) -> bool:
        """Goes some steps towards the first delivery; True once `batch` may be asked."""
        for _ in range(_UNITS_MAX):
            if self._next < 0:
                break
            self._walk()
        else:
            return False
        for _ in range(_RECALLS_MAX):
            if not self._recalls:
                return True
            self._note_recall(self._recalls.pop())
        return not self._recalls

    def _walk(self) -> None:
        unit = self._log.unit(self._next)
        if unit is None:
            log.error("timer log: no unit at %d, in the chain of %d", self._next, self.time)
            self._next = -1
            return
        if unit.is_recall and not unit.rolls:
            self._recalls.append(self._next)
        else:
            self._waiting.append(self._next)
        self._next = unit.previous

    def _note_recall(self, position: int) -> None:
        unit = self._log.unit(position)
        marked = None if unit is None else self._read(unit)
        if marked is not None and marked.recalled:
            self.recalled.add(marked.recalled)
            self.recalls.append(marked)

    def batch(self, count_max: int, bytes_max: int) -> list[Unit]:
        """Returns the units that come next, at least one; none if all are done."""
        units: list[Unit] = []
        size = 0
        for index in range(len(self._waiting) - 1, max(-1, len(self._waiting) - 1 - count_max), -1):
            unit = self._log.unit(self._waiting[index])
            assert unit is not None
            size += unit.size
            if units and size > bytes_max:
                break
            units.append(unit)
        return units

    def done(self, count: int) -> None:
        """Says that the first so many of a batch need not come again."""
        if count:
            del self._waiting[-count:]
