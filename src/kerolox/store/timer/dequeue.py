"""Delivers due messages: stores them in their real topics (TimerDequeuePutMessageService)."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kerolox.runtime.clock import Clock
from kerolox.store.errors import NotStorable, StoreFull
from kerolox.store.log.commit_log import Append
from kerolox.store.store import Store
from kerolox.store.timer.convert import (
    NEVER_ENQUEUED,
    DeliveryKey,
    TimerMessage,
    append_of,
    corrected_out_time,
    decode_timer_message,
    delivery_keys,
    restore_message,
)
from kerolox.store.timer.metrics import TimerMetrics
from kerolox.store.timer.recall import is_recalled
from kerolox.store.timer.slot_reader import SlotReader
from kerolox.store.timer.timer_log import Unit

log = logging.getLogger(__name__)

_COUNT_MAX = 128
_BYTES_MAX = 1024 * 1024


class _Delivery(NamedTuple):
    """A message that leaves the wheel; without an append if it is not to be stored."""

    timer_message: TimerMessage | None
    append: Append | None


class TimerDequeue:
    """A message that cannot be stored now is retried; one that can never be stored is logged and skipped."""

    def __init__(self, store: Store, metrics: TimerMetrics, clock: Clock) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._delivered: Counter[DeliveryKey] = Counter()
        self._delivered_until = 0
        # Physical offset from which the remembered deliveries begin; None if there are none.
        self.delivered_from: int | None = None
        # By how much the clock was ahead before it was last set back.
        self._ahead_millis = 0
        # Number of messages that left the timer: delivered, recalled, rolled or dropped.
        self.done_count = 0

    def load(self, delivered: Counter[DeliveryKey], until: int, begin_offset: int | None = None) -> None:
        """Set the deliveries found in the commit log from `begin_offset` on, which must not be repeated.

        `until` is the latest time at which one of them was due.
        """
        self._delivered = delivered
        self._delivered_until = until
        self.delivered_from = begin_offset if delivered else None

    def note_clock_set_back(self, millis: int) -> None:
        """Note by how much the clock was ahead before it was set back."""
        self._ahead_millis = millis

    def forget_before(self, time: int) -> None:
        """Drop the remembered deliveries once everything due before `time` is finished."""
        if self._delivered and time > self._delivered_until:
            self._delivered = Counter()
            self.delivered_from = None

    def read(self, unit: Unit) -> TimerMessage | None:
        """Return the message of a unit, or None if the commit log no longer has it."""
        record = self._store.reader.record_at(unit.physical_offset, unit.size)
        timer_message = None if record is None else decode_timer_message(record)
        if timer_message is None:
            log.warning("no timer message at %d, not delivered", unit.physical_offset)
        return timer_message

    def add_count(self, timer_message: TimerMessage, count: int) -> None:
        """Add to the number of pending messages of the real topic."""
        self._metrics.add(timer_message.real_topic, count, self._clock.millis())

    def count_enqueued(self, timer_message: TimerMessage) -> None:
        """Count a message that was enqueued, or was too late for that."""
        topic = timer_message.real_topic
        self._metrics.enqueued.add(topic)
        self._metrics.waits.add((timer_message.out_time - timer_message.message.born_timestamp) / 1000, topic)

    def step(self, slot: SlotReader) -> bool:
        """Deliver the next messages of a slot, or put them back into the queue if `is_moved`.

        True if there are none left. StoreError if the store refuses all.
        """
        for recall in slot.recalls:
            self.add_count(recall, -recall.weight)
        slot.recalls.clear()
        units = slot.batch(_COUNT_MAX, _BYTES_MAX)
        deliveries = [self._delivery_of(unit, slot) for unit in units]
        done = self._store_counted(deliveries)
        slot.remove(done)
        for timer_message, _ in deliveries[:done]:
            if timer_message is not None:
                self.add_count(timer_message, -timer_message.weight)
        return not units

    def deliver_late(self, messages: Sequence[TimerMessage], late_before: int) -> int:
        """Deliver messages that were never in the wheel; return how many are done.

        A message that is not due before `late_before` was stored while the clock was ahead: it goes back to the queue
        with its delivery time by the current clock.
        """
        return self._store_counted([self._late_delivery(timer_message, late_before) for timer_message in messages])

    def _late_delivery(self, timer_message: TimerMessage, late_before: int) -> _Delivery:
        out_time = self.out_time(timer_message)
        if out_time >= late_before:
            append = self._append_for(timer_message, self._clock.millis(), rolls=True, out_time=out_time)
            return _Delivery(timer_message, append)
        return _Delivery(
            timer_message,
            None if timer_message.recalled else self._append_for(timer_message, NEVER_ENQUEUED, rolls=False),
        )

    def out_time(self, timer_message: TimerMessage) -> int:
        """Return the slot of a message by the current clock, which may have been ahead when it was stored."""
        return corrected_out_time(timer_message, self._clock.millis(), self._ahead_millis, self._store.config)

    def _delivery_of(self, unit: Unit, slot: SlotReader) -> _Delivery:
        timer_message = self.read(unit)
        if timer_message is None:
            return _Delivery(None, None)
        if not unit.rolls and (
            timer_message.recalled or is_recalled(timer_message.real_topic, timer_message.unique_key, slot.recalled)
        ):
            return _Delivery(timer_message, None)
        out_time = self.out_time(timer_message) if slot.is_moved else None
        rolls = unit.rolls or slot.is_moved
        return _Delivery(
            timer_message, self._append_for(timer_message, unit.enqueue_time, rolls=rolls, out_time=out_time)
        )

    def _append_for(
        self, timer_message: TimerMessage, enqueue_time: int, *, rolls: bool, out_time: int | None = None
    ) -> Append | None:
        if self._delivered and self._was_delivered(timer_message):
            return None
        try:
            message = restore_message(timer_message, enqueue_time, self._clock.millis(), rolls=rolls, out_time=out_time)
            return append_of(message, self._store.log.append_size_max)
        except NotStorable as error:
            log.error("timer message at %d cannot be delivered: %s", timer_message.message.physical_offset, error)
            return None

    def _was_delivered(self, timer_message: TimerMessage) -> bool:
        """Whether a message left its slot before the crash."""
        for key in delivery_keys(timer_message):
            if self._delivered[key]:
                self._delivered[key] -= 1
                return True
        return False

    def _store_counted(self, deliveries: Sequence[_Delivery]) -> int:
        done = self._store_appends(deliveries)
        self.done_count += done
        for timer_message, append in deliveries[:done]:
            if timer_message is not None and append is not None:
                self._metrics.delivered.add(timer_message.real_topic)
        return done

    def _store_appends(self, deliveries: Sequence[_Delivery]) -> int:
        """Return how many messages are done; StoreFull if not even the first was stored."""
        appends = [append for _, append in deliveries if append is not None]
        stored = len(self._store.append(appends)) if appends else 0
        if stored < len(appends) and stored == 0:
            raise StoreFull("the commit log has no room for due timer messages")
        for number, (_, append) in enumerate(deliveries):
            if append is not None:
                if not stored:
                    return number
                stored -= 1
        return len(deliveries)
