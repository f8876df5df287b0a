"""Recovers the timer: makes timer log, wheel and checkpoint agree, and finds where to resume."""

import logging
from collections import Counter
from dataclasses import dataclass, field

from kerolox.message.errors import RecordError
from kerolox.message.records.record import BLANK_MAGIC, size_and_magic
from kerolox.message.records.summary import peek
from kerolox.store.errors import StoreDamaged
from kerolox.store.store import Store
from kerolox.store.timer.checkpoint import TimerCheckpoint
from kerolox.store.timer.convert import DeliveryKey, decode_timer_message, delivery_key
from kerolox.store.timer.divert import TIMER_TOPIC
from kerolox.store.timer.flush import TimerFiles
from kerolox.store.timer.timer_log import UNIT_SIZE, TimerLog, Unit
from kerolox.store.timer.wheel import Wheel

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """Where to resume, and what must not be repeated."""

    queue_offset: int
    # Physical offsets of messages after `queue_offset` that have a unit already.
    enqueued: set[int] = field(default_factory=set)
    # Deliveries that the checkpoint does not cover.
    delivered: Counter[DeliveryKey] = field(default_factory=Counter)
    # The latest time at which one of them was due.
    delivered_until: int = 0


def recover(
    store: Store, files: TimerFiles, oldest_time: int, *, now: int, pending_count: int | None = None
) -> Recovered:
    """Load the files. Without a read time in the checkpoint, messages due after `oldest_time` count.

    `pending_count` is the number of messages that should be in the wheel, if known. A damaged wheel is rebuilt from
    the timer log; if that or the checkpoint is damaged, all messages are enqueued again. Messages that were delivered
    according to the commit log are not delivered twice.
    """
    timer_log, wheel, checkpoint = files.log, files.wheel, files.checkpoint
    queue = store.queues.get(TIMER_TOPIC, 0)
    low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
    _load(store, files, oldest_time, queue_end=high, pending_count=pending_count)
    recovered = Recovered(min(max(checkpoint.queue_offset, low), high))
    end = start = timer_log.after(min(checkpoint.log_position, timer_log.end))
    for position, unit in timer_log.units(start):
        if not _is_known(store, unit):
            break
        # A unit before the read time was enqueued after the clock was set back, which the checkpoint does not know yet:
        # its message is enqueued again from the queue.
        if unit.time >= wheel.read_time:
            _add_unit(wheel, position, unit)
            recovered.enqueued.add(unit.physical_offset)
        end = position + UNIT_SIZE
    timer_log.cut(end)
    _repair_chains(timer_log, wheel)
    if checkpoint.delivered_from is not None:
        _find_deliveries(store, checkpoint.delivered_from, recovered, now)
    log.info(
        "timer resumes at queue offset %d, %d enqueued already; timer log up to %d; delivered up to %d and %d after it",
        recovered.queue_offset,
        len(recovered.enqueued),
        end,
        wheel.read_time,
        recovered.delivered.total(),
    )
    return recovered


def _load(store: Store, files: TimerFiles, oldest_time: int, *, queue_end: int, pending_count: int | None) -> None:
    timer_log, wheel, checkpoint = files.log, files.wheel, files.checkpoint
    try:
        timer_log.load()
        problem = _checkpoint_problem(checkpoint, timer_log, queue_end)
    except StoreDamaged as error:
        problem = str(error)
    read_time = oldest_time if problem else checkpoint.read_time or oldest_time
    try:
        wheel.load(read_time, checkpoint.wheel_precision if not problem else None)
        wheel_problem = _wheel_problem(timer_log, wheel, pending_count) if not problem else ""
    except StoreDamaged as error:
        wheel_problem = str(error)
    if wheel_problem and not problem:
        log.warning("timer: %s; the wheel is rebuilt from the timer log", wheel_problem)
        has_units_before = any(0 <= slot.last < timer_log.first for _, slot in wheel.pending())
        wheel.reset(read_time)
        if has_units_before:
            problem = f"the timer log begins at {timer_log.first}, after units of pending messages"
        elif not _rebuild_wheel(timer_log, wheel, checkpoint.log_position):
            problem = f"the timer log is damaged before {checkpoint.log_position}"
        elif pending_count is not None and pending_count != (
            found := sum(slot.messages for _, slot in wheel.pending())
        ):
            problem = f"the timer log has {found} pending messages instead of {pending_count}"
    if problem:
        log.warning("timer: %s; enqueueing all pending messages again", problem)
        timer_log.reset()
        checkpoint.reset_progress(store.log.first_offset)
        wheel.reset(oldest_time)


def _checkpoint_problem(checkpoint: TimerCheckpoint, timer_log: TimerLog, queue_end: int) -> str:
    """Return why the checkpoint cannot be trusted; empty if it can."""
    if not queue_end:
        return ""
    if not checkpoint.exists:
        return "its checkpoint is missing"
    if not 0 <= checkpoint.log_position <= timer_log.end:
        return f"the timer log ends before {checkpoint.log_position}"
    # Java writes no checksum, but its values are always within the files.
    is_plausible = checkpoint.read_time >= 0 and 0 <= checkpoint.queue_offset <= queue_end
    return "" if checkpoint.is_checksum_valid or is_plausible else "its checkpoint is damaged"


def _wheel_problem(timer_log: TimerLog, wheel: Wheel, pending_count: int | None) -> str:
    """Return how the wheel contradicts the timer log; empty if it does not."""
    found = 0
    for time, slot in wheel.pending():
        found += slot.messages
        if slot.last < timer_log.end:
            # Slots that point beyond the end of the log are repaired later.
            unit = timer_log.unit(slot.last)
            if unit is None or unit.time // wheel.precision * wheel.precision != time:
                return f"the slot of {time} points to a unit that is not due then"
    if pending_count is not None and found != pending_count:
        return f"the wheel has {found} messages instead of {pending_count}"
    return ""


def _rebuild_wheel(timer_log: TimerLog, wheel: Wheel, log_position: int) -> bool:
    """Add all pending units to an empty wheel; False if the units end before `log_position`."""
    end = timer_log.first
    for position, unit in timer_log.units(timer_log.first):
        if position >= log_position:
            break
        if unit.time >= wheel.read_time:
            _add_unit(wheel, position, unit)
        end = position + UNIT_SIZE
    return timer_log.after(log_position) <= end or timer_log.is_blank(end)


def _is_known(store: Store, unit: Unit) -> bool:
    """Whether the commit log has, or had, the message of a unit; after a crash a unit may be incomplete."""
    if unit.physical_offset < store.log.first_offset:
        return True
    record = store.reader.record_at(unit.physical_offset, unit.size)
    try:
        return record is not None and peek(record).topic == TIMER_TOPIC
    except RecordError:
        return False


def _add_unit(wheel: Wheel, position: int, unit: Unit) -> None:
    if position > wheel.slot(unit.time).last:
        wheel.add(unit.time, position, -1 if unit.is_recall else 1)


def _repair_chains(timer_log: TimerLog, wheel: Wheel) -> None:
    """Rebuild chains that end beyond the timer log: Java may write the wheel before the log."""
    broken = {time: slot for time, slot in wheel.pending() if slot.last >= timer_log.end}
    if not broken:
        return
    log.warning("timer: %d slots point beyond the end of the timer log", len(broken))
    for time in broken:
        wheel.clear(time)
    start = timer_log.after(max(0, min(slot.first for slot in broken.values())))
    for position, unit in timer_log.units(start):
        if unit.time in broken:
            wheel.add(unit.time, position, -1 if unit.is_recall else 1)


def _find_deliveries(store: Store, offset: int, recovered: Recovered, now: int) -> None:
    """Collect the deliveries in the commit log from `offset` on."""
    latest = now + store.config.timer_max_delay_sec * 1000
    ends = {damage.offset: damage.end_offset for damage in store.reader.damages}
    offset = max(offset, store.log.first_offset)
    while offset < store.log.end_offset:
        if offset in ends:
            offset = ends[offset]
            continue
        size, magic = size_and_magic(store.log.read(offset, 8))
        if magic == BLANK_MAGIC:
            offset = store.log.next_file_start(offset)
            continue
        try:
            record = peek(store.log.read(offset, size))
        except RecordError as error:
            # Later deliveries may be repeated; nothing is lost.
            log.warning("timer deliveries after %d are unknown: %s", offset, error)
            break
        key = delivery_key(record.topic, record.properties)
        if key is not None:
            due = _latest_due_time(key, record.store_timestamp)
            # Messages delivered while the clock was ahead are remembered until their slots are over by the current
            # clock. Without a unique key a message could be confused with another that is sent meanwhile.
            if due <= now or (key[1] and due <= latest):
                recovered.delivered[key] += 1
                recovered.delivered_until = max(recovered.delivered_until, due)
        offset += size


def _latest_due_time(key: DeliveryKey, delivered_at: int) -> int:
    """Return the latest time at which a message was due; one that rolls was in an earlier slot than its key has."""
    out = key[2]
    return min(int(out), delivered_at) if out.isdigit() and len(out) < 19 else delivered_at


def count_pending(store: Store, timer_log: TimerLog, wheel: Wheel) -> dict[str, int]:
    """Return the number of pending messages by topic, according to the timer log."""
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
    timer_message = None if record is None else decode_timer_message(record)
    return timer_message.real_topic if timer_message is not None else ""
