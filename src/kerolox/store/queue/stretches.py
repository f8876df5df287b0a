"""Where the records of many queue entries lie, those side by side together: hardly any is looked at by itself."""

import functools
import struct
from collections.abc import Iterable
from typing import Final

from kerolox.store.log.records import Stretch
from kerolox.store.queue.consume_queue import ENTRY, ENTRY_SIZE

# So many entries are unpacked together.
_TOGETHER: Final = 64
_BLOCK_SIZE: Final = _TOGETHER * ENTRY_SIZE
# Where fewer entries than that belong to a stretch, on average, once there are some stretches, it is not worth it.
_STRETCH_SIZE_MIN: Final = 32 * ENTRY_SIZE
_STRETCHES_MIN: Final = 4
# Where the first of some records begins, where the last does, how long they are together, and how many there are.
_Piece = tuple[int, int, int, int]


def stretches(data: bytes, bytes_max: int) -> tuple[list[Stretch], int] | None:
    """Returns where records lie, and where the last of them begins: as many as have `bytes_max` at the most.

    It goes no further than the first entry that is a filler, or not in the order of the log. None if only few of the
    records lie side by side.
    """
    found: list[Stretch] = []
    start = end = count = last = 0
    room = bytes_max
    for at in range(0, len(data), _BLOCK_SIZE):
        for first, following, size, number in _pieces(data[at : at + _BLOCK_SIZE], room):
            if not 0 < size <= room or first < end:
                return _with(found, start, end, count), last
            if first != end:
                found = _with(found, start, end, count)
                if len(found) > _STRETCHES_MIN + at // _STRETCH_SIZE_MIN:
                    return None
                start, count = first, 0
            end = first + size
            last = following
            count += number
            room -= size
    return _with(found, start, end, count), last


def _with(found: list[Stretch], start: int, end: int, count: int) -> list[Stretch]:
    if count:
        found.append(Stretch(start, end, count))
    return found


def _pieces(block: bytes, room: int) -> Iterable[_Piece]:
    """Returns one piece of all entries if their records lie side by side and have room; else one for each."""
    count = len(block) // ENTRY_SIZE
    if count > 1:
        # Of those in between no more is wanted than how long they are.
        fields = side_by_side(count).unpack(block)
        first, last = fields[0], fields[-2]
        size = sum(fields) - first - last
        if last + fields[-1] - first == size <= room:
            return ((first, last, size, count),)
    return [(start, start, size, 1) for start, size, _ in ENTRY.iter_unpack(block)]


@functools.cache
def side_by_side(count: int) -> struct.Struct:
    """Returns what unpacks so many entries, two at least: the sizes of all, and where the first and last begin."""
    assert 2 <= count <= _TOGETHER
    return struct.Struct(">qi8x" + "8xi8x" * (count - 2) + "qi8x")
