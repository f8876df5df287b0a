"""Finds messages of a queue by the time at which they were stored."""

from enum import Enum

from kerolox.store.log.records import Records
from kerolox.store.queue.consume_queue import ConsumeQueue

# Entries that are read at once where messages are missing.
_STEP = 800


class Boundary(Enum):
    """Which message is meant by a time; 5.x knows the first two by name, 4.x only the third."""

    # The first that was stored at that time or later; the end of the queue if none was.
    LOWER = "LOWER"
    # The last that was stored at that time or earlier; 0 if none was.
    UPPER = "UPPER"
    # The one whose time is nearest, of two the earlier: even if all are earlier, or all later.
    NEAREST = "NEAREST"


def offset_at(records: Records, queue: ConsumeQueue, timestamp: int, boundary: Boundary) -> int:
    """Returns the offset of the message that is meant by a time; 0 if the queue never had one.

    Where the clock was set back in between, the answer is one of several that would be right.
    """
    low, high = queue.min_offset, queue.max_offset
    if boundary is Boundary.UPPER:
        # Times are whole milliseconds.
        following = _first_from(records, queue, timestamp + 1)
        is_there = following > low and _time(records, queue, following - 1) is not None
        return following - 1 if is_there else 0
    lower = _first_from(records, queue, timestamp)
    # It may be the first of some that are not there any more; they count as the one that follows them.
    at, time = _next(records, queue, lower) if lower < high else (high, None)
    if boundary is Boundary.LOWER:
        return at
    before = _time(records, queue, lower - 1) if lower > low else None
    if time is None:
        return lower - 1 if before is not None else low
    return lower - 1 if before is not None and timestamp - before <= time - timestamp else at


def _first_from(records: Records, queue: ConsumeQueue, timestamp: int) -> int:
    """Returns the first offset from which on all messages were stored at `timestamp` or later.

    The message before it was stored earlier, and is there unless the log has lost all that were.
    """
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        if _is_gone(records, queue, middle):
            low = middle + 1
            continue
        at, time = _next(records, queue, middle)
        if time is None or time >= timestamp:
            high = middle
        else:
            low = at + 1
    return low


def _is_gone(records: Records, queue: ConsumeQueue, queue_offset: int) -> bool:
    """Whether a message lay before the first that the log still has: so did all before it."""
    entry = queue.entry(queue_offset)
    return entry is not None and not entry.is_filler and entry.physical_offset < records.first_offset


def _next(records: Records, queue: ConsumeQueue, queue_offset: int) -> tuple[int, int | None]:
    """Returns offset and time of the first message from `queue_offset` on; the end and None if there is none."""
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
