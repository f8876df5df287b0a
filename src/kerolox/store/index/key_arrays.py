"""Hashes the index keys of many records at once, with numpy.

`String.hashCode` of a key is the sum of its characters, each times a power of 31, in 32 bits. In a text with all keys
one after the other, a running sum of character times 31**-position gives the hash of any part of it: the difference of
two sums, times 31**(end - 1). 31 is odd, and has an inverse in 32 bits.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kerolox.message.tags import topic_hash
from kerolox.store.index.key_hashes import RecordKeys
from kerolox.store.index.layout import ENTRY, SECONDS_MAX

# The keys of so many bytes are hashed together; the powers take eight times as much memory.
TEXT_SIZE_MAX = 64 * 1024

_BLANK = ord(" ")
# Records are divided at those with unusual keys if at most one of so many has some.
_UNUSUAL_SHARE = 32
# The bytes of an entry as numpy sees them: hash, physical offset, seconds, number of the next older entry.
_ENTRY = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
assert _ENTRY.itemsize == ENTRY.size


def _powers(base: int) -> "NDArray[np.uint32]":
    found = np.full(TEXT_SIZE_MAX + 1, base, np.uint32)
    found[0] = 1
    return np.multiply.accumulate(found, dtype=np.uint32)


_POWERS = _powers(31)
_INVERSES = _powers(pow(31, -1, 1 << 32))


class KeyArrays:
    """Index keys as columns, in index order: hash, physical offset and store timestamp of each."""

    __slots__ = ("_hashes", "_offsets", "_timestamps")

    def __init__(
        self, hashes: "NDArray[np.int64]", offsets: "NDArray[np.int64]", timestamps: "NDArray[np.int64]"
    ) -> None:
        self._hashes = hashes
        self._offsets = offsets
        self._timestamps = timestamps

    def __len__(self) -> int:
        return len(self._hashes)

    def part(self, first: int, end: int) -> "KeyArrays":
        span = slice(first, end)
        return KeyArrays(self._hashes[span], self._offsets[span], self._timestamps[span])

    def key(self, number: int) -> tuple[int, int, int]:
        """Return hash, physical offset and store timestamp of one key."""
        return int(self._hashes[number]), int(self._offsets[number]), int(self._timestamps[number])

    def link(self, slots: memoryview, first_number: int) -> "Links":
        """Enter the keys into their slots, as entries with consecutive numbers."""
        places = self._hashes % len(slots)
        return Links(places, _linked(np.frombuffer(slots, np.uint32), places, first_number))

    def packed(self, begin_timestamp: int, links: "Links") -> bytes:
        """Return the entries as they are stored; `begin_timestamp` is that of the file."""
        entries = np.empty(len(self), _ENTRY)
        entries["hash"], entries["offset"], entries["previous"] = self._hashes, self._offsets, links.previous
        # As `_seconds` of index_file.py.
        passed = (self._timestamps - begin_timestamp) // 1000 if begin_timestamp > 0 else 0
        entries["seconds"] = np.clip(passed, 0, SECONDS_MAX)
        return entries.tobytes()


class Links(NamedTuple):
    """The slot of each entry, and the number of the next older entry in it; 0 for none."""

    places: "NDArray[np.int64]"
    previous: "NDArray[np.uint32]"

    @property
    def new_slots(self) -> int:
        """The number of slots that were empty before."""
        return len(self.previous) - int(np.count_nonzero(self.previous))

    def pages(self, page_slots: int) -> list[int]:
        found: list[int] = (self.places // page_slots).tolist()
        return found


def _linked(slots: "NDArray[np.uint32]", places: "NDArray[np.int64]", first_number: int) -> "NDArray[np.uint32]":
    """Return the number of the next older entry of each. A number in a slot from `first_number` on is damaged."""
    numbers = np.arange(first_number, first_number + len(places), dtype=np.uint32)
    previous = slots[places]
    previous[previous >= first_number] = 0
    slots[places] = numbers
    if not np.array_equal(slots[places], numbers):
        # Several entries share a slot. In the order of their numbers, each follows the one before it, and the last one
        # is in the slot; which of them the assignment above has left there is not defined.
        order = np.argsort(places, kind="stable")
        ordered, ordered_numbers = places[order], numbers[order]
        is_repeated = ordered[1:] == ordered[:-1]
        previous[order[1:][is_repeated]] = ordered_numbers[:-1][is_repeated]
        is_last = np.append(~is_repeated, True)
        slots[ordered[is_last]] = ordered_numbers[is_last]
    return previous


def key_arrays(run: RecordKeys) -> Iterator[KeyArrays | RecordKeys]:
    """Yield the keys of records, in parts; records with unusual keys as they are, to be hashed one by one."""
    rows = list(map(_row, run.unique_keys, run.keys, run.tags))
    if b"" in rows:
        # Records without keys are not in the index.
        run, rows = run.chosen(rows), list(filter(None, rows))
    first = 0
    for end in _ends(rows):
        part = run.part(first, end)
        hashed = _hashed(part, rows[first:end])
        if hashed is not None:
            yield hashed
        else:
            yield from _divided(part, rows[first:end])
        first = end


def _row(unique_key: bytes, keys: bytes, tag: bytes) -> bytes:
    """Return the keys of a record, separated by spaces."""
    if keys:
        text = unique_key + b" " + keys if unique_key else keys
    else:
        text = unique_key
    if tag:
        return text + b" T#" + tag if text else b"T#" + tag
    return text


def _ends(rows: list[bytes]) -> Iterator[int]:
    """Yield where to divide rows, so that the text of each part is short enough, or a part has one row."""
    if sum(map(len, rows)) + len(rows) <= TEXT_SIZE_MAX:
        if rows:
            yield len(rows)
        return
    size, first = 0, 0
    for number, row in enumerate(rows):
        size += len(row) + 1
        if size > TEXT_SIZE_MAX and number > first:
            yield number
            size, first = len(row) + 1, number
    yield len(rows)


def _divided(run: RecordKeys, rows: list[bytes]) -> Iterator[KeyArrays | RecordKeys]:
    """Yield records with unusual keys as they are, and those between them as arrays; if many are unusual, all as is."""
    unusual = [
        number for number, row in enumerate(rows) if not _is_usual(run.unique_keys[number], run.tags[number], row)
    ]
    if len(unusual) * _UNUSUAL_SHARE > len(rows):
        # Arrays of few records cost more than hashing their keys one by one.
        yield run
        return
    first = 0
    for number in (*unusual, len(rows)):
        if number > first:
            hashed = _hashed(run.part(first, number), rows[first:number])
            assert hashed is not None
            yield hashed
        if number < len(rows):
            yield run.part(number, number + 1)
        first = number + 1


def _is_usual(unique_key: bytes, tag: bytes, row: bytes) -> bool:
    has_blanks = b" " in unique_key or b" " in tag or b"  " in row or row[:1] == b" " or row[-1:] == b" "
    return len(row) < TEXT_SIZE_MAX and row.isascii() and not has_blanks


def _hashed(run: RecordKeys, rows: list[bytes]) -> KeyArrays | None:
    """Return the keys of rows; None if some row is unusual."""
    text = b" ".join(rows) + b" "
    # Blanks separate keys: they may not be part of one, and none may be empty.
    is_usual = len(text) <= TEXT_SIZE_MAX and text.isascii() and text[0] != _BLANK and b"  " not in text
    if not is_usual or b" " in b"".join(run.unique_keys) or b" " in b"".join(run.tags):
        return None
    characters = np.frombuffer(text, np.uint8)
    sums = np.empty(len(text) + 1, np.uint32)
    sums[0] = 0
    np.cumsum(characters * _INVERSES[: len(text)], dtype=np.uint32, out=sums[1:])
    ends = np.flatnonzero(characters == _BLANK)
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    counts = np.array([row.count(b" ") + 1 for row in rows])
    topic_hashes = {topic: topic_hash(topic) for topic in set(run.topics)}
    prefixes = np.array([topic_hashes[topic] for topic in run.topics], np.uint32).repeat(counts)
    hashes = (sums[ends] - sums[starts]) * _POWERS[ends - 1] + prefixes * _POWERS[ends - starts]
    # Math.abs(Integer.MIN_VALUE) is negative in Java, and the index uses 0 instead; so does the mask.
    absolute = np.abs(hashes.view(np.int32)).astype(np.int64) & 0x7FFFFFFF
    return KeyArrays(
        absolute,
        np.array(run.physical_offsets, np.int64).repeat(counts),
        np.array(run.store_timestamps, np.int64).repeat(counts),
    )
