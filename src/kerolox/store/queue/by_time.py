"""Finds queue offsets by store timestamp (ConsumeQueue.getOffsetInQueueByTime)."""

from enum import Enum

from kerolox.store.log.records import Records
from kerolox.store.queue.consume_queue import ConsumeQueue

# Entries read together while searching for the next record that exists.
_STEP = 800


class Boundary(Enum):
    """Which message a timestamp selects. RocketMQ 5.x has LOWER and UPPER (BoundaryType), 4.x only NEAREST."""

    # The first message stored at that time or later; the end of the queue if there is none.
    LOWER = "LOWER"
    # The last message stored at that time or earlier; 0 if there is none.
    UPPER = "UPPER"
    # The message with the nearest timestamp, the earlier one of two; the first or last if all are later or earlier.
    NEAREST = "NEAREST"


def offset_at(records: Records, queue: ConsumeQueue, timestamp: int, boundary: Boundary) -> int:
    """Return the queue offset that a timestamp selects; 0 if the queue never had a message.

    If the clock was set back in between, several offsets are correct, and one of them is returned.
    """
    low, high = queue.min_offset, queue.max_offset
    if boundary is Boundary.UPPER:
        # Timestamps are whole milliseconds.
        following = _first_from(records, queue, timestamp + 1)
        is_found = following > low and _time(records, queue, following - 1) is not None
        return following - 1 if is_found else 0
    lower = _first_from(records, queue, timestamp)
    # `lower` may be an entry without a record; it counts as the next one with a record.
    at, time = _next(records, queue, lower) if lower < high else (high, None)
    if boundary is Boundary.LOWER:
        return at
    before = _time(records, queue, lower - 1) if lower > low else None
    if time is None:
        return lower - 1 if before is not None else low
    return lower - 1 if before is not None and timestamp - before <= time - timestamp else at


def _first_from(records: Records, queue: ConsumeQueue, timestamp: int) -> int:
    """Return the first offset from which on all messages were stored at `timestamp` or later.

    The message before it was stored earlier, and its record exists unless all earlier ones have expired.
    """
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        if _has_expired(records, queue, middle):
            low = middle + 1
            continue
        at, time = _next(records, queue, middle)
        if time is None or time >= timestamp:
            high = middle
        else:
            low = at + 1
    return low


def _has_expired(records: Records, queue: ConsumeQueue, queue_offset: int) -> bool:
    """Whether the record was before the start of the log, as then were all before it."""
    entry = queue.entry(queue_offset)
    return entry is not None and not entry.is_filler and entry.physical_offset < records.first_offset


def _next(records: Records, queue: ConsumeQueue, queue_offset: int) -> tuple[int, int | None]:
    """Return offset and time of the first message from `queue_offset` on; the end and None if there is none."""
    time = _time(records, queue, queue_offset)
    if time is not None:
        return queue_offset, time
    end = queue.max_offset
    for start in range(queue_offset + 1, end, _STEP):
        for at, entry in enumerate(queue.entries(start, min(_STEP, end - start)), start):
            if not entry.is_filler and (time := records.store_time(entry.physical_offset)) is not None:
                return at, time
    return end, None


def _time(records: Records, queue: ConsumeQueue, queue_offset: int) -> int | None:
    entry = queue.entry(queue_offset)
    return None if entry is None or entry.is_filler else records.store_time(entry.physical_offset)
