"""Finds the ranges of the log that hold the records of many queue entries, without a look at each entry."""

import functools
import struct
from collections.abc import Iterable
from typing import Final

from kerolox.store.log.records import ContiguousRange
from kerolox.store.queue.consume_queue import ENTRY, ENTRY_SIZE

# Entries unpacked with one call.
_BLOCK_ENTRIES: Final = 64
_BLOCK_SIZE: Final = _BLOCK_ENTRIES * ENTRY_SIZE
# Give up if there are more than _RANGES_MIN ranges and they have on average less than this many bytes of entries.
_RANGE_ENTRIES_SIZE_MIN: Final = 32 * ENTRY_SIZE
_RANGES_MIN: Final = 4
# Adjacent records: start of the first, start of the last, total size, count.
_Piece = tuple[int, int, int, int]


def contiguous_ranges(data: bytes, bytes_max: int) -> tuple[list[ContiguousRange], int] | None:
    """Return the ranges that hold the records of entries, `bytes_max` in total, and the start of the last record.

    The result ends before the first entry that is a filler or not in log order. None if too few records are adjacent.
    """
    found: list[ContiguousRange] = []
    start = end = count = last = 0
    room = bytes_max
    for at in range(0, len(data), _BLOCK_SIZE):
        for first, following, size, number in _pieces(data[at : at + _BLOCK_SIZE], room):
            if not 0 < size <= room or first < end:
                return _with(found, start, end, count), last
            if first != end:
                found = _with(found, start, end, count)
                if len(found) > _RANGES_MIN + at // _RANGE_ENTRIES_SIZE_MIN:
                    return None
                start, count = first, 0
            end = first + size
            last = following
            count += number
            room -= size
    return _with(found, start, end, count), last


def _with(found: list[ContiguousRange], start: int, end: int, count: int) -> list[ContiguousRange]:
    if count:
        found.append(ContiguousRange(start, end, count))
    return found


def _pieces(block: bytes, room: int) -> Iterable[_Piece]:
    """Return one piece for all entries if their records are adjacent and fit into `room`; otherwise one for each."""
    count = len(block) // ENTRY_SIZE
    if count > 1:
        # Only the sizes of the entries in between matter.
        fields = ends_and_sizes(count).unpack(block)
        first, last = fields[0], fields[-2]
        size = sum(fields) - first - last
        if last + fields[-1] - first == size <= room:
            return ((first, last, size, count),)
    return [(start, start, size, 1) for start, size, _ in ENTRY.iter_unpack(block)]


@functools.cache
def ends_and_sizes(count: int) -> struct.Struct:
    """Return a Struct for `count` entries, at least two: all sizes, and the offsets of the first and the last.

    If the records are adjacent, the sizes add up to the distance from the first offset to the end of the last record.
    """
    assert 2 <= count <= _BLOCK_ENTRIES
    return struct.Struct(">qi8x" + "8xi8x" * (count - 2) + "qi8x")
