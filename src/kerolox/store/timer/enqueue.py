"""Moves messages from the timer topic into wheel and timer log (TimerEnqueueGetService)."""

import logging
from typing import NamedTuple

from kerolox.message.tags import java_hash
from kerolox.store.queue.consume_queue import Entry
from kerolox.store.store import Store
from kerolox.store.timer.convert import TimerMessage, decode_timer_message
from kerolox.store.timer.dequeue import TimerDequeue
from kerolox.store.timer.divert import TIMER_TOPIC
from kerolox.store.timer.timer_log import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, TimerLog, Unit
from kerolox.store.timer.wheel import Wheel

log = logging.getLogger(__name__)

_ENTRIES_MAX = 200
_BYTES_MAX = 1024 * 1024
_OVERDUE_MILLIS_MAX = 2**31 - 1


class _QueuedMessage(NamedTuple):
    entry: Entry
    timer_message: TimerMessage


class TimerEnqueue:
    """Reads the queue once, in order. Messages whose slot is over are delivered without being in the wheel."""

    def __init__(
        self, store: Store, wheel: Wheel, timer_log: TimerLog, dequeue: TimerDequeue, window_millis: int
    ) -> None:
        self._store = store
        self._wheel = wheel
        self._log = timer_log
        self._dequeue = dequeue
        self._window_millis = window_millis
        self._enqueued_offsets: set[int] = set()
        # The queue offset after the messages read last.
        self._next = 0
        # The next message to enqueue.
        self.queue_offset = 0

    def load(self, queue_offset: int, enqueued: set[int]) -> None:
        """Continue at `queue_offset`; messages whose physical offsets are in `enqueued` have a unit already."""
        self.queue_offset = queue_offset
        self._enqueued_offsets = enqueued

    def step(self, write_time: int, open_time: int, now: int) -> bool:
        """Enqueue some messages; False if there are none, or they cannot be enqueued now.

        All slots before `open_time` are finished, so messages due then are late. If the clock was set back by less than
        the timer follows, some of them are not due yet: they go into the first open slot.
        """
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        if queue is None or self.queue_offset >= queue.max_offset:
            self._enqueued_offsets.clear()
            return False
        if self.queue_offset < queue.min_offset:
            missing = queue.min_offset - self.queue_offset
            log.warning("timer: %d messages are gone from the commit log and were never enqueued", missing)
            self.queue_offset = queue.min_offset
        first = self.queue_offset
        read = self._read()
        # Late messages are delivered first, so that none is skipped without being delivered. Messages with another
        # delivery time by the current clock go back to the queue with them.
        late_before = min(open_time, now - self._wheel.precision + 1)
        late_messages = {
            queue_offset: queued
            for queue_offset, queued in read
            if queued.timer_message.out_time < late_before
            or self._dequeue.out_time(queued.timer_message) != queued.timer_message.out_time
        }
        delivered = self._dequeue.deliver_late([queued.timer_message for queued in late_messages.values()], late_before)
        stop = list(late_messages)[delivered] if delivered < len(late_messages) else self._next
        for queue_offset, queued in read:
            if queue_offset >= stop:
                break
            if queue_offset not in late_messages and not self.enqueue(*queued, write_time, open_time):
                stop = queue_offset
                break
            self._dequeue.count_enqueued(queued.timer_message)
        self.queue_offset = stop
        return self.queue_offset > first

    def _read(self) -> list[tuple[int, _QueuedMessage]]:
        """Return messages with their queue offsets, without those that are enqueued already or malformed."""
        read: list[tuple[int, _QueuedMessage]] = []
        size = 0
        queue_offset = self.queue_offset
        for entry in self._store.reader.entries(TIMER_TOPIC, 0, self.queue_offset, _ENTRIES_MAX):
            if read and size + entry.size > _BYTES_MAX:
                break
            queue_offset += 1
            if entry.is_filler or entry.physical_offset in self._enqueued_offsets:
                continue
            record = self._store.reader.record_at(entry.physical_offset, entry.size)
            timer_message = None if record is None else decode_timer_message(record)
            if timer_message is None:
                log.warning("no timer message at %d, skipped", entry.physical_offset)
                continue
            size += entry.size
            read.append((queue_offset - 1, _QueuedMessage(entry, timer_message)))
        self._next = queue_offset
        return read

    def enqueue(self, entry: Entry, timer_message: TimerMessage, write_time: int, open_time: int = 0) -> bool:
        """Enqueue one message; False if its slot still holds messages of a previous round of the wheel."""
        time, magic = self._slot_and_magic(max(timer_message.out_time, open_time), write_time)
        if self._wheel.is_taken(time):
            return False
        if timer_message.recalled:
            magic |= MAGIC_DELETE
        # After a jump of the clock a message may be overdue by more than the delay field of a unit can hold.
        enqueued_at = write_time if write_time - time <= _OVERDUE_MILLIS_MAX else time
        unit = Unit(
            self._wheel.slot(time).last,
            magic,
            enqueued_at,
            time - enqueued_at,
            entry.physical_offset,
            entry.size,
            java_hash(timer_message.real_topic),
        )
        self._wheel.add(time, self._log.append(unit), timer_message.weight)
        self._dequeue.add_count(timer_message, timer_message.weight)
        return True

    def _slot_and_magic(self, out_time: int, write_time: int) -> tuple[int, int]:
        """Return the slot of a message, and the magic that tells whether it rolls then."""
        window, left = self._window_millis, out_time - write_time
        if left < window:
            return self._round_down(out_time), MAGIC_DEFAULT
        # If little would remain after a whole window, half a window leaves the next round enough time.
        slots = window // self._wheel.precision
        if left - window < slots // 3 * self._wheel.precision:
            window = slots // 2 * self._wheel.precision
        return write_time + window, MAGIC_DEFAULT | MAGIC_ROLL

    def _round_down(self, time: int) -> int:
        return time // self._wheel.precision * self._wheel.precision
