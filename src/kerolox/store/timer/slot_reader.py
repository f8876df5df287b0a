"""Reads the chain of one due slot, oldest message first, in bounded steps."""

import logging
from array import array
from collections.abc import Callable

from kerolox.store.timer.convert import TimerMessage
from kerolox.store.timer.timer_log import TimerLog, Unit

log = logging.getLogger(__name__)

_UNITS_MAX = 1000
_RECALLS_MAX = 100


class SlotReader:
    """The chain links the newest unit to the oldest, so it is walked to its end before anything is delivered."""

    def __init__(
        self,
        time: int,
        last: int,
        timer_log: TimerLog,
        read: Callable[[Unit], TimerMessage | None],
        *,
        is_moved: bool = False,
    ) -> None:
        self.time = time
        # Its messages are not due, but go back to the queue to be enqueued by the current clock.
        self.is_moved = is_moved
        self._log = timer_log
        self._read = read
        self._next = last
        # Positions in the timer log, newest first; eight bytes per message.
        self._positions = array("q")
        self._recalls = array("q")
        # Keys of recalled messages, which are not delivered.
        self.recalled: set[bytes] = set()
        # Recalls that were read and not subtracted from the counts yet.
        self.recalls: list[TimerMessage] = []

    def prepare(self) -> bool:
        """Walk a part of the chain; True once `batch` may be called."""
        for _ in range(_UNITS_MAX):
            if self._next < 0:
                break
            self._walk()
        else:
            return False
        for _ in range(_RECALLS_MAX):
            if not self._recalls:
                return True
            self._read_recall(self._recalls.pop())
        return not self._recalls

    def _walk(self) -> None:
        unit = self._log.unit(self._next)
        if unit is None:
            log.error("timer log: no unit at %d in the chain of slot %d", self._next, self.time)
            self._next = -1
            return
        if unit.is_recall and not unit.rolls:
            self._recalls.append(self._next)
        else:
            self._positions.append(self._next)
        self._next = unit.previous

    def _read_recall(self, position: int) -> None:
        unit = self._log.unit(position)
        recall = None if unit is None else self._read(unit)
        if recall is not None and recall.recalled:
            self.recalled.add(recall.recalled)
            self.recalls.append(recall)

    def batch(self, count_max: int, bytes_max: int) -> list[Unit]:
        """Return the next units, at least one; none if all are done."""
        units: list[Unit] = []
        size = 0
        for index in range(len(self._positions) - 1, max(-1, len(self._positions) - 1 - count_max), -1):
            unit = self._log.unit(self._positions[index])
            assert unit is not None
            size += unit.size
            if units and size > bytes_max:
                break
            units.append(unit)
        return units

    def remove(self, count: int) -> None:
        """Remove the first `count` units of the last batch."""
        if count:
            del self._positions[-count:]
