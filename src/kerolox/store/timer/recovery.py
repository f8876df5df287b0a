"""Brings timer log, wheel and checkpoint to agree after a start, and finds where to go on."""

import logging
from collections import Counter
from dataclasses import dataclass, field

from kerolox.message.errors import RecordError
from kerolox.message.peek import peek
from kerolox.message.record import BLANK_MAGIC, size_and_magic
from kerolox.store.store import Store
from kerolox.store.timer.checkpoint import TimerCheckpoint
from kerolox.store.timer.delivery import Key, key_of, timed
from kerolox.store.timer.divert import TIMER_TOPIC
from kerolox.store.timer.timer_log import UNIT_SIZE, TimerLog, Unit
from kerolox.store.timer.wheel import Wheel

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """Where to go on entering messages, and what must not be done twice."""

    queue_offset: int
    # Physical offsets of messages that follow in the queue and have their units already.
    entered: set[int] = field(default_factory=set)
    # Messages that were delivered, and of which the checkpoint does not tell.
    delivered: Counter[Key] = field(default_factory=Counter)
    # When the last of them was.
    delivered_until: int = 0


def recover(
    store: Store, timer_log: TimerLog, wheel: Wheel, checkpoint: TimerCheckpoint, oldest_time: int
) -> Recovered:
    """Reads what the files say; of a checkpoint that says no time, what is due after `oldest_time` counts."""
    timer_log.load()
    wheel.load(checkpoint.read_time or oldest_time, checkpoint.wheel_precision)
    queue = store.queues.get(TIMER_TOPIC, 0)
    low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
    recovered = Recovered(min(max(checkpoint.queue_offset, low), high))
    end = start = timer_log.after(min(checkpoint.log_position, timer_log.end))
    for position, unit in timer_log.units(start):
        if not _is_known(store, unit):
            break
        _enter(wheel, position, unit)
        recovered.entered.add(unit.physical_offset)
        end = position + UNIT_SIZE
    timer_log.cut(end)
    _mend(timer_log, wheel)
    if checkpoint.delivered_from is not None:
        _note_delivered(store, checkpoint.delivered_from, recovered)
    log.info(
        "timer goes on at queue offset %d, %d entered before: log up to %d, delivered up to %d and %d after it",
        recovered.queue_offset,
        len(recovered.entered),
        end,
        wheel.read_time,
        recovered.delivered.total(),
    )
    return recovered


def _is_known(store: Store, unit: Unit) -> bool:
    """Whether the commit log has the message of a unit, or had it; after a crash parts of a unit may be missing."""
    if unit.physical_offset < store.log.first_offset:
        return True
    record = store.reader.record_at(unit.physical_offset, unit.size)
    try:
        return record is not None and peek(record).topic == TIMER_TOPIC
    except RecordError:
        return False


def _enter(wheel: Wheel, position: int, unit: Unit) -> None:
    if unit.time >= wheel.read_time and position > wheel.slot(unit.time).last:
        wheel.enter(unit.time, position, -1 if unit.is_recall else 1)


def _mend(timer_log: TimerLog, wheel: Wheel) -> None:
    """Makes chains anew that end where the log has nothing: Java may write the wheel before it."""
    broken = {time: slot for time, slot in wheel.pending() if slot.last >= timer_log.end}
    if not broken:
        return
    log.warning("timer: %d slots lead beyond the end of the timer log", len(broken))
    for time in broken:
        wheel.clear(time)
    start = timer_log.after(max(0, min(slot.first for slot in broken.values())))
    for position, unit in timer_log.units(start):
        if unit.time in broken:
            wheel.enter(unit.time, position, -1 if unit.is_recall else 1)


def _note_delivered(store: Store, offset: int, recovered: Recovered) -> None:
    """Notes what the timer has put into the commit log from `offset` on."""
    ends = {damage.offset: damage.end_offset for damage in store.reader.damages}
    offset = max(offset, store.log.first_offset)
    while offset < store.log.end_offset:
        if offset in ends:
            offset = ends[offset]
            continue
        size, magic = size_and_magic(store.log.read(offset, 8))
        if magic == BLANK_MAGIC:
            offset = store.log.next_file(offset)
            continue
        try:
            record = peek(store.log.read(offset, size))
        except RecordError as error:
            # What follows may be delivered twice; nothing is lost by it.
            log.warning("deliveries after %d are not known: %s", offset, error)
            break
        key = key_of(record.topic, record.properties)
        if key is not None:
            recovered.delivered[key] += 1
            recovered.delivered_until = record.store_timestamp
        offset += size


def count_pending(store: Store, timer_log: TimerLog, wheel: Wheel) -> dict[str, int]:
    """Returns how many messages wait for each topic, as the timer log has it."""
    ends = {time: slot.last for time, slot in wheel.pending()}
    firsts = [slot.first for _, slot in wheel.pending()]
    topics: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for position, unit in timer_log.units(timer_log.after(min(firsts, default=timer_log.end))):
        if position <= ends.get(unit.time, -1):
            if unit.topic_hash not in topics:
                topics[unit.topic_hash] = _topic_of(store, unit)
            counts[topics[unit.topic_hash]] += -1 if unit.is_recall else 1
    counts.pop("", None)
    return dict(counts)


def _topic_of(store: Store, unit: Unit) -> str:
    record = store.reader.record_at(unit.physical_offset, unit.size)
    waiting = None if record is None else timed(record)
    return waiting.real_topic if waiting is not None else ""
