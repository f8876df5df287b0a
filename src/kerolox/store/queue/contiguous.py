"""Finds the ranges of the log that hold the records of queue entries; adjacent records without a look at each entry."""

import functools
import struct
from collections.abc import Sequence
from typing import Final

from kerolox.store.log.records import Ranges, merge_adjacent
from kerolox.store.queue.consume_queue import ENTRY_SIZE

# Entries unpacked with one call; consumers ask for no more by default.
_BLOCK_ENTRIES: Final = 64
_BLOCK_SIZE: Final = _BLOCK_ENTRIES * ENTRY_SIZE


def contiguous_ranges(data: bytes, bytes_max: int) -> Ranges:
    """Return the ranges that hold the records of entries, `bytes_max` in total.

    They end before the first entry that is a filler or not in log order.
    """
    starts: list[int] = []
    ends: list[int] = []
    count = size = 0
    last = -1
    for at in range(0, len(data), _BLOCK_SIZE):
        block = data[at : at + _BLOCK_SIZE]
        entries = len(block) // ENTRY_SIZE
        if entries > 1:
            # Usually the records are adjacent, and then only the sizes of the entries in between matter.
            fields = _sizes(entries).unpack(block)
            first, final = fields[0], fields[-2]
            end, block_size = final + fields[-1], sum(fields) - first - final
            if end - first == block_size and 0 < block_size <= bytes_max - size:
                if not ends or first > ends[-1]:
                    starts.append(first)
                    ends.append(end)
                elif first == ends[-1]:
                    ends[-1] = end
                else:
                    break
                count += entries
                size += block_size
                last = final
                continue
        fields = _columns(entries).unpack(block)
        offsets, sizes = fields[::2], fields[1::2]
        previous_end, room = ends[-1] if ends else 0, bytes_max - size
        fitting = entries
        if sum(sizes) > room or offsets[0] < previous_end or (merged := merge_adjacent(offsets, sizes)) is None:
            fitting = _fitting(offsets, sizes, previous_end, room)
            offsets, sizes = offsets[:fitting], sizes[:fitting]
            merged = merge_adjacent(offsets, sizes) if fitting else None
            if merged is None:
                break
        if previous_end == merged[0][0] and ends:
            ends.pop()
            del merged[0][0]
        starts += merged[0]
        ends += merged[1]
        count += fitting
        size += sum(sizes)
        last = offsets[-1]
        if fitting < entries:
            break
    return Ranges(starts, ends, count, size, last)


def _fitting(starts: Sequence[int], sizes: Sequence[int], end: int, room: int) -> int:
    """Return how many records are in log order after `end` and fit into `room`."""
    for count, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if start < end or not 0 < size <= room:
            return count
        end = start + size
        room -= size
    return len(starts)


@functools.cache
def _sizes(count: int) -> struct.Struct:
    """Return a Struct for `count` entries, at least two: all sizes, and the offsets of the first and the last.

    If the records are adjacent, the sizes add up to the distance from the first offset to the end of the last record.
    """
    return struct.Struct(">qi8x" + "8xi8x" * (count - 2) + "qi8x")


@functools.cache
def _columns(count: int) -> struct.Struct:
    """Return a Struct for the offsets and sizes of `count` entries."""
    return struct.Struct(">" + "qi8x" * count)
