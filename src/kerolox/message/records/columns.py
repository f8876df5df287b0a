"""Summaries of many records as columns, decoded together, to dispatch a log fast."""

import functools
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from zlib_ng import zlib_ng

from kerolox.message.message import CRC_MASK
from kerolox.message.records import layout
from kerolox.message.records.record import MAGIC_V1, PROPERTIES_SIZE_MAX
from kerolox.message.records.summary import (
    KEYS_MARK,
    SECTOR_SIZE,
    SUMMARY_FIELDS,
    TAGS_MARK,
    UNIQ_KEY_MARK,
    RecordSummary,
    known_topic,
    peek_run,
)
from kerolox.message.sysflag import HOSTS_MASK
from kerolox.message.tags import tags_code

# The head as in `peek`, with IPv4 hosts, of a record that is read alone.
_HEAD = layout.head(SUMMARY_FIELDS)
# The indexes in it of the fields in `_Heads`; the tail is the tenth field.
_FIELDS: Final = 10
_WANTED: Final = (0, 3, 4, 5, 6, 7, 9)
# Records of equal sizes are read together, at least _BLOCK of them, if they are no larger than _RUN_RECORD_SIZE_MAX.
# After about _RUN_MAX of them the columns end, which bounds their memory.
_BLOCK: Final = 32
_RUN_MAX: Final = 128 * _BLOCK
_RUN_RECORD_SIZE_MAX: Final = 4096
# Bytes of the head that are the same in all records of a run: size, magic, sysFlag, and size of the body.
_RUN_CONSTANTS: Final = (
    *range(layout.position("crc")),
    *range(layout.position("sys_flag"), layout.position("born_timestamp")),
    *range(layout.position("body_size"), _HEAD.size),
)
# The other fields: queue id, queue offset, physical offset and store timestamp; the tail is the fifth.
_RUN_STRUCT = layout.head(("queue_id", "queue_offset", "physical_offset", "store_timestamp"))
_RUN_HEAD: Final = f"{_RUN_STRUCT.format[1:]}{_HEAD.size - _RUN_STRUCT.size}x"
_RUN_FIELDS: Final = 5
# CRCs are compared as bytes.
_CRC_AT: Final = layout.position("crc")
_CRC_MASK: Final = CRC_MASK.to_bytes(4)
# After sizes did not repeat, at most this many records are read one by one before the next attempt.
_PAUSE_MAX: Final = 64 * _BLOCK
# With more distinct sizes than this, tails are read one by one.
_SIZES_MAX: Final = 4
_MARKS = (UNIQ_KEY_MARK, KEYS_MARK, TAGS_MARK)
_END = b"\2"
_PROPERTIES: Final = RecordSummary.__struct_fields__.index("properties")


@dataclass(slots=True)
class Columns:
    """The fields of `RecordSummary` as columns, for consecutive records."""

    sizes: Sequence[int]
    topics: Sequence[str]
    queue_ids: Sequence[int]
    queue_offsets: Sequence[int]
    physical_offsets: Sequence[int]
    sys_flags: Sequence[int]
    store_timestamps: Sequence[int]
    # Bytes after the body: topic and properties, each with its length prefix.
    tails: Sequence[bytes]
    tags_codes: Sequence[int]
    keys: Sequence[bytes]
    unique_keys: Sequence[bytes]
    tags: Sequence[bytes]

    @property
    def end_offset(self) -> int:
        return self.physical_offsets[-1] + self.sizes[-1]

    def __len__(self) -> int:
        return len(self.sizes)

    @classmethod
    def of(cls, records: Sequence[RecordSummary]) -> Self:
        columns = [[getattr(record, name) for record in records] for name in RecordSummary.__struct_fields__]
        # Tails with an empty topic: `summaries` needs the properties only.
        columns[_PROPERTIES] = [bytes(3) + properties for properties in columns[_PROPERTIES]]
        return cls(*columns)

    def summaries(self) -> list[RecordSummary]:
        columns = [getattr(self, name) for name in self.__slots__]
        columns[_PROPERTIES] = [tail[tail[0] + 3 :] for tail in self.tails]
        return list(map(RecordSummary, *columns))


class _Heads(NamedTuple):
    sizes: list[Any]
    queue_ids: list[Any]
    queue_offsets: list[Any]
    physical_offsets: list[Any]
    sys_flags: list[Any]
    store_timestamps: list[Any]
    tails: list[Any]


class _TailColumns(NamedTuple):
    topics: list[Any]
    tags_codes: list[Any]
    keys: list[Any]
    unique_keys: list[Any]
    tags: list[Any]


def peek_columns(buffer: bytes, at: int, physical_offset: int) -> Columns:
    """Return the records of `peek_run` with `check_crc` as columns, faster if they are many.

    After some thousand records the columns may end although others follow.
    """
    heads = _read_heads(buffer, at, physical_offset - at)
    found = _tail_columns(heads.tails) if heads.tails else None
    if found is None:
        # The first record is unusual, or the tail of any.
        return Columns.of(peek_run(buffer, at, physical_offset, check_crc=True))
    return Columns(heads.sizes, found.topics, *heads[1:], *found[1:])


def _read_heads(buffer: bytes, at: int, shift: int) -> _Heads:
    """Return the heads and tails of consecutive records, up to the first invalid or unusual one.

    `shift` is the physical offset of a record minus its index in the buffer.
    """
    heads = _Heads([], [], [], [], [], [], [])
    # Fields of records that were read one by one since the last run.
    flat: list[Any] = []
    unpack, head_size, crc32 = _HEAD.unpack_from, _HEAD.size, zlib_ng.crc32
    view, limit = memoryview(buffer), len(buffer)
    last = limit - head_size - 3
    # The first attempt to read a run is made at once.
    size_before, resume, pause = int.from_bytes(buffer[at : at + 4]), 0, _BLOCK
    while at <= last:
        head = unpack(buffer, at)
        size, body_size = head[0], head[8]
        body_start, end = at + head_size, at + size
        body_end = body_start + body_size
        if (
            head[1] != MAGIC_V1
            or head[5] != at + shift
            or head[6] & HOSTS_MASK
            or not body_start <= body_end <= end - 3
            or end > limit
        ):
            break
        if size == size_before and at >= resume and size <= _RUN_RECORD_SIZE_MAX:
            run = _read_run(buffer, at, shift, head)
            if run is not None:
                if flat or heads.sizes:
                    _add_heads(heads, (flat[field::_FIELDS] for field in _WANTED))
                    _add_heads(heads, run)
                    flat = []
                else:
                    heads = run
                if len(heads.sizes) >= _RUN_MAX:
                    break
                at += len(run.sizes) * size
                pause = _BLOCK
                continue
            resume = at + pause * size
            pause = min(2 * pause, _PAUSE_MAX)
        if crc32(view[body_start:body_end]) & CRC_MASK != head[2]:
            break
        flat += head
        flat.append(buffer[body_end:end])
        size_before, at = size, end
    _add_heads(heads, (flat[field::_FIELDS] for field in _WANTED))
    return heads


def _add_heads(heads: _Heads, more: Iterable[list[Any]]) -> None:
    for column, values in zip(heads, more, strict=True):
        column += values


def _read_run(buffer: bytes, at: int, shift: int, head: tuple[int, ...]) -> _Heads | None:
    """Read adjacent records with the sizes and flags of a valid `head`; None if they are few or one is invalid."""
    size, sys_flag, body_size = head[0], head[6], head[8]
    count = min((len(buffer) - at) // size, _RUN_MAX)
    for place in _RUN_CONSTANTS:
        column = buffer[at + place : at + count * size : size]
        if column != column[:1] * count:
            count -= len(column.lstrip(column[:1]))
    count -= count % _BLOCK
    if not count:
        return None
    run, bodies = _run_structs(body_size, size - _HEAD.size - body_size)
    flat: list[Any] = []
    crcs = array("I")
    for start in range(at, at + count * size, run.size):
        flat += run.unpack_from(buffer, start)
        # Bodies are unpacked separately and dropped at once, so that the result holds no copies of them.
        crcs.fromlist(list(map(zlib_ng.crc32, bodies.unpack_from(buffer, start))))
    if sys.byteorder == "little":
        crcs.byteswap()
    declared_crcs = bytearray(4 * count)
    for place in range(4):
        declared_crcs[place::4] = buffer[at + _CRC_AT + place : at + count * size : size]
    if int.from_bytes(crcs.tobytes()) & int.from_bytes(_CRC_MASK * count) != int.from_bytes(declared_crcs):
        return None
    queue_ids, queue_offsets, offsets, timestamps, tails = (flat[field::_RUN_FIELDS] for field in range(_RUN_FIELDS))
    if offsets != list(range(at + shift, at + shift + count * size, size)):
        return None
    return _Heads([size] * count, queue_ids, queue_offsets, offsets, [sys_flag] * count, timestamps, tails)


@functools.lru_cache(maxsize=64)
def _run_structs(body_size: int, tail_size: int) -> tuple[struct.Struct, struct.Struct]:
    """Return Structs for the fields and for the bodies of _BLOCK records."""
    return (
        struct.Struct(">" + f"{_RUN_HEAD}{body_size}x{tail_size}s" * _BLOCK),
        struct.Struct(">" + f"{_HEAD.size}x{body_size}s{tail_size}x" * _BLOCK),
    )


def _tail_columns(tails: Sequence[bytes]) -> _TailColumns | None:
    """Decode tails of any sizes, in order; None if one of them is unusual."""
    sizes = set(map(len, tails))
    if len(sizes) == 1:
        return _uniform_tails(tails) or _single_tails(tails)
    if len(sizes) > _SIZES_MAX:
        return _single_tails(tails)
    found = _TailColumns(*([None] * len(tails) for _ in _TailColumns._fields))
    for size in sizes:
        indexes = [index for index, tail in enumerate(tails) if len(tail) == size]
        group = [tails[index] for index in indexes]
        part = _uniform_tails(group) or _single_tails(group)
        if part is None:
            return None
        for column, values in zip(found, part, strict=True):
            for index, value in zip(indexes, values, strict=True):
                column[index] = value
    return found


def _single_tails(tails: Sequence[bytes]) -> _TailColumns | None:
    """Decode tails of any sizes."""
    prefixes = [tail[: tail[0] + 3] for tail in tails]
    topics = list(map(_topic, prefixes, map(len, tails)))
    # Each name follows the end of a property, so that a marker is not found in a longer name.
    properties = [_END + tail[len(prefix) :] for tail, prefix in zip(tails, prefixes, strict=True)]
    text = b"".join([*properties, _END])
    marks = [_END + marked for marked in _MARKS]
    if (
        not all(topics)
        or max(map(len, properties)) > PROPERTIES_SIZE_MAX
        # A part that did not reach the disk, see `is_torn`.
        or (b"\0" in text and any(part[-1] == 0 or len(part) > SECTOR_SIZE for part in properties))
        # Without a value, the same name may occur before.
        or (b"\1\2" in text and any(marked + _END in text for marked in marks))
    ):
        return None
    unique_keys, keys, tags = (
        [part.rpartition(marked)[2].partition(_END)[0] for part in properties] if marked in text else [b""] * len(tails)
        for marked in marks
    )
    return _TailColumns(topics, _tags_codes(tags), keys, unique_keys, tags)


@functools.lru_cache(maxsize=8192)
def _topic(prefix: bytes, tail_size: int) -> str:
    """Return the topic from the bytes before the properties; empty if the lengths do not add up."""
    is_whole = len(prefix) == prefix[0] + 3 and len(prefix) + int.from_bytes(prefix[-2:]) == tail_size
    return known_topic(prefix[1:-2]) if is_whole else ""


def _tags_codes(tags: Sequence[bytes]) -> list[int]:
    code_of = {tag: tags_code(tag) for tag in set(tags)}
    return list(map(code_of.__getitem__, tags))


def _uniform_tails(tails: Sequence[bytes]) -> _TailColumns | None:
    """Decode tails of one size whose properties are at the same positions; None if they are not."""
    first, count = tails[0], len(tails)
    size, start = len(first), first[0] + 3
    if start > size or size - start >= SECTOR_SIZE:
        return None
    text = b"".join(tails)
    # Each tail must have the names of the first one at the same positions, and no others: 1 stands after each name.
    name_ends = [at for at, byte in enumerate(first) if byte == 1]
    fixed = set(name_ends)
    for end in name_ends:
        fixed.update(range(max(first.rfind(_END, start, end), start), end))
    spans: list[tuple[int, int]] = []
    for marked in _MARKS:
        at = first.find(marked, start)
        if at < 0:
            spans.append((start, start))
            continue
        begin = at + len(marked)
        stop = first.find(_END, begin)
        if stop <= begin or (at > start and first[at - 1] != _END[0]) or first.count(marked, start) > 1:
            return None
        fixed.add(stop)
        spans.append((begin, stop))
    if (
        (size > start and b"\0" in text[size - 1 :: size])
        or text.count(b"\1") != count * len(name_ends)
        or not all(_is_constant(text, size, at) for at in fixed)
    ):
        return None
    columns: list[list[bytes]] = [[b""] * count] * len(spans)
    # The prefixes: one if they are all the same.
    columns.append([first[:start]])
    order = sorted((span, number) for number, span in enumerate(spans) if span[0] < span[1])
    if not all(_is_constant(text, size, at) for at in range(start)):
        order.insert(0, ((0, start), len(spans)))
    block = _values_block(size, tuple(span for span, _ in order))
    flat: list[bytes] = []
    for fields in block.iter_unpack(text + bytes(-len(text) % block.size)):
        flat += fields
    for field, (_, number) in enumerate(order):
        columns[number] = flat[field : count * len(order) : len(order)]
    unique_keys, keys, tags, prefixes = columns
    topic_of = {prefix: _topic(prefix, size) for prefix in set(prefixes)}
    if not all(topic_of.values()) or any(_END in b"".join(values) for values in (unique_keys, keys, set(tags))):
        return None
    topics = [topic_of[first[:start]]] * count if len(topic_of) == 1 else [topic_of[prefix] for prefix in prefixes]
    return _TailColumns(topics, _tags_codes(tags), keys, unique_keys, tags)


def _is_constant(text: bytes, size: int, at: int) -> bool:
    """Whether all tails, each of `size` bytes, have the same byte at `at`."""
    column = text[at::size]
    return column == column[:1] * len(column)


@functools.lru_cache(maxsize=64)
def _values_block(size: int, spans: tuple[tuple[int, int], ...]) -> struct.Struct:
    """Return a Struct for the values at `spans` of _BLOCK tails."""
    parts, at = [], 0
    for begin, stop in spans:
        parts.append(f"{begin - at}x{stop - begin}s")
        at = stop
    return struct.Struct(">" + "".join([*parts, f"{size - at}x"]) * _BLOCK)
