"""Enters messages from the queue of the timer's topic into wheel and log."""

import logging
from typing import NamedTuple

from kerolox.message.tags import java_hash
from kerolox.store.queue.consume_queue import ConsumeQueue, Entry
from kerolox.store.store import Store
from kerolox.store.timer.delivering import Delivering
from kerolox.store.timer.delivery import Timed, timed
from kerolox.store.timer.divert import TIMER_TOPIC
from kerolox.store.timer.timer_log import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, TimerLog, Unit
from kerolox.store.timer.wheel import Wheel

log = logging.getLogger(__name__)

_ENTRIES_MAX = 200
_BYTES_MAX = 1024 * 1024


class _Read(NamedTuple):
    entry: Entry
    waiting: Timed


class Entering:
    """Goes through the queue once, in order. What comes after its slot was is delivered without being in the wheel."""

    def __init__(
        self, store: Store, wheel: Wheel, timer_log: TimerLog, delivering: Delivering, window_millis: int
    ) -> None:
        self._store = store
        self._wheel = wheel
        self._log = timer_log
        self._delivering = delivering
        self._window = window_millis
        self._entered: set[int] = set()
        # Where the messages end that were read last.
        self._next = 0
        # The next to be entered.
        self.queue_offset = 0

    def load(self, queue_offset: int, entered: set[int]) -> None:
        """Goes on at `queue_offset`; what is in `entered`, by its physical offset, has its unit already."""
        self.queue_offset = queue_offset
        self._entered = entered

    def step(self, write_time: int, open_time: int, now: int) -> bool:
        """Enters some messages; False if there are none, or they cannot be entered now.

        Before `open_time` all slots are done with: what was due then is late. If the clock has gone back there may be
        such messages that are not due yet; they wait for the first slot that is open.
        """
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        if queue is None or self.queue_offset >= queue.max_offset:
            self._entered.clear()
            return False
        if self.queue_offset < queue.min_offset:
            missing = queue.min_offset - self.queue_offset
            log.warning("timer: %d messages are gone from the commit log and were never entered", missing)
            self.queue_offset = queue.min_offset
        first = self.queue_offset
        read = self._read(queue)
        # Those that are late are delivered first: none may be passed over that was not.
        late_before = min(open_time, now - self._wheel.precision + 1)
        late = [(number, found) for number, found in read if found.waiting.out_time < late_before]
        delivered = self._delivering.late([found.waiting for _, found in late])
        stop = late[delivered][0] if delivered < len(late) else self._next
        for number, found in read:
            if number >= stop:
                break
            is_late = found.waiting.out_time < late_before
            if not is_late and not self.enter(*found, write_time, open_time):
                stop = number
                break
            self._delivering.entered(found.waiting)
        self.queue_offset = stop
        return self.queue_offset > first

    def _read(self, queue: ConsumeQueue) -> list[tuple[int, _Read]]:
        """Returns messages by their queue offsets; what is no timer message, or entered before, is left out."""
        read: list[tuple[int, _Read]] = []
        size = 0
        number = self.queue_offset
        for entry in queue.entries(self.queue_offset, _ENTRIES_MAX):
            if read and size + entry.size > _BYTES_MAX:
                break
            number += 1
            if entry.is_filler or entry.physical_offset in self._entered:
                continue
            record = self._store.reader.record_at(entry.physical_offset, entry.size)
            waiting = None if record is None else timed(record)
            if waiting is None:
                log.warning("no timer message at %d: passed over", entry.physical_offset)
                continue
            size += entry.size
            read.append((number - 1, _Read(entry, waiting)))
        self._next = number
        return read

    def enter(self, entry: Entry, waiting: Timed, write_time: int, open_time: int = 0) -> bool:
        """Enters one message; False if its slot still holds what was due a turn of the wheel ago."""
        time, magic = self._turn(max(waiting.out_time, open_time), write_time)
        if self._wheel.is_taken(time):
            return False
        if waiting.recalled:
            magic |= MAGIC_DELETE
        unit = Unit(
            self._wheel.slot(time).last,
            magic,
            write_time,
            time - write_time,
            entry.physical_offset,
            entry.size,
            java_hash(waiting.real_topic),
        )
        self._wheel.enter(time, self._log.append(unit), waiting.weight)
        self._delivering.count(waiting, waiting.weight)
        return True

    def _turn(self, out_time: int, write_time: int) -> tuple[int, int]:
        """Returns the slot of a message, and the magic that says whether it rolls then."""
        window, left = self._window, out_time - write_time
        if left < window:
            return self._whole(out_time), MAGIC_DEFAULT
        # Where little would be left after a whole window, half of one gives the next round time enough.
        slots = window // self._wheel.precision
        if left - window < slots // 3 * self._wheel.precision:
            window = slots // 2 * self._wheel.precision
        return write_time + window, MAGIC_DEFAULT | MAGIC_ROLL

    def _whole(self, time: int) -> int:
        return time // self._wheel.precision * self._wheel.precision
