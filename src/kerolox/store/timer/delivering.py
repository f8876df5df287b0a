"""Puts messages whose time has come back into the store."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kerolox.runtime.clock import Clock
from kerolox.store.errors import NotStorable, StoreFull
from kerolox.store.log.commit_log import Draft
from kerolox.store.store import Store
from kerolox.store.timer.delivery import NEVER_ENTERED, Key, Timed, draft_of, key_of, restored, timed
from kerolox.store.timer.due import Due
from kerolox.store.timer.metrics import TimerMetrics
from kerolox.store.timer.recall import is_recalled
from kerolox.store.timer.timer_log import Unit

log = logging.getLogger(__name__)

_COUNT_MAX = 128
_BYTES_MAX = 1024 * 1024


class _Leaving(NamedTuple):
    """A message that leaves the wheel: with a draft, or without one if it is not to be delivered."""

    waiting: Timed | None
    draft: Draft | None


class Delivering:
    """What could not be stored now comes again; what can never be stored is reported and passed over."""

    def __init__(self, store: Store, metrics: TimerMetrics, clock: Clock) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._delivered: Counter[Key] = Counter()
        self._delivered_until = 0
        # How many messages have left the timer, one way or another.
        self.left = 0

    def load(self, delivered: Counter[Key], until: int) -> None:
        """Takes note of what was delivered before, up to some time, and must not be again."""
        self._delivered = delivered
        self._delivered_until = until

    def forget_before(self, time: int) -> None:
        """Says that all has been passed which was due before `time`."""
        if self._delivered and time > self._delivered_until:
            self._delivered = Counter()

    def read(self, unit: Unit) -> Timed | None:
        """Returns the message of a unit, or None if the commit log no longer has it."""
        record = self._store.reader.record_at(unit.physical_offset, unit.size)
        waiting = None if record is None else timed(record)
        if waiting is None:
            log.warning("no timer message at %d: not delivered", unit.physical_offset)
        return waiting

    def count(self, waiting: Timed, count: int) -> None:
        self._metrics.add(waiting.real_topic, count, self._clock.millis())

    def entered(self, waiting: Timed) -> None:
        """Counts a message that was entered, or was late for it."""
        topic = waiting.real_topic
        self._metrics.entered.add(topic)
        self._metrics.waits.add((waiting.out_time - waiting.message.born_timestamp) / 1000, topic)

    def step(self, due: Due) -> bool:
        """Delivers the next messages of a slot; True if there are none left. StoreError if the store takes nothing."""
        for marked in due.recalls:
            self.count(marked, -marked.weight)
        due.recalls.clear()
        units = due.batch(_COUNT_MAX, _BYTES_MAX)
        leaving = [self._leaving(unit, due.recalled) for unit in units]
        done = self._put(leaving)
        due.done(done)
        for waiting, _ in leaving[:done]:
            if waiting is not None:
                self.count(waiting, -waiting.weight)
        return not units

    def late(self, messages: Sequence[Timed]) -> int:
        """Delivers messages that were never in the wheel, and returns of how many that is done."""
        return self._put(
            [
                _Leaving(waiting, None if waiting.recalled else self._draft(waiting, NEVER_ENTERED, rolls=False))
                for waiting in messages
            ]
        )

    def _leaving(self, unit: Unit, recalled: set[bytes]) -> _Leaving:
        waiting = self.read(unit)
        if waiting is None:
            return _Leaving(None, None)
        if not unit.rolls and (waiting.recalled or is_recalled(waiting.real_topic, waiting.unique_key, recalled)):
            return _Leaving(waiting, None)
        return _Leaving(waiting, self._draft(waiting, unit.enqueue_time, rolls=unit.rolls))

    def _draft(self, waiting: Timed, enqueue_time: int, *, rolls: bool) -> Draft | None:
        try:
            message = restored(waiting, enqueue_time, self._clock.millis(), rolls=rolls)
            if self._delivered and self._was_delivered(key_of(message.topic, message.properties)):
                return None
            return draft_of(message, self._store.log.draft_size_max)
        except NotStorable as error:
            log.error("timer message at %d is lost: %s", waiting.message.physical_offset, error)
            return None

    def _was_delivered(self, key: Key | None) -> bool:
        if key is None or not self._delivered[key]:
            return False
        self._delivered[key] -= 1
        return True

    def _put(self, leaving: Sequence[_Leaving]) -> int:
        done = self._store_drafts(leaving)
        self.left += done
        for waiting, draft in leaving[:done]:
            if waiting is not None and draft is not None:
                self._metrics.delivered.add(waiting.real_topic)
        return done

    def _store_drafts(self, leaving: Sequence[_Leaving]) -> int:
        """Returns how many messages are done with; StoreError if not even the first draft is stored."""
        drafts = [draft for _, draft in leaving if draft is not None]
        stored = len(self._store.append(drafts)) if drafts else 0
        if stored < len(drafts) and stored == 0:
            raise StoreFull("the commit log took no message that was due")
        for number, (_, draft) in enumerate(leaving):
            if draft is not None:
                if not stored:
                    return number
                stored -= 1
        return len(leaving)
