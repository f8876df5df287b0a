"""Summaries of many records as columns, decoded together, to dispatch a log fast."""

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from zlib_ng import zlib_ng

from kerolox.message.message import CRC_MASK
from kerolox.message.properties import find
from kerolox.message.records.record import MAGIC_V1
from kerolox.message.records.summary import (
    KEYS_MARK,
    SECTOR_SIZE,
    TAGS_MARK,
    UNIQ_KEY_MARK,
    RecordSummary,
    known_topic,
    peek_run,
)
from kerolox.message.sysflag import HOSTS_MASK
from kerolox.message.tags import SHORT_TAG_SIZE_MAX, short_tags_code, tags_code

# The head as in `peek`, with IPv4 hosts; a tenth field is the tail of the record, which follows the body.
_HEAD = struct.Struct(">IIIi4xqqi16xq20xi")
_FIELDS: Final = 10
# Records of equal sizes are unpacked in blocks, if they are no larger than _BLOCK_RECORD_SIZE_MAX.
_BLOCK: Final = 32
_BLOCK_RECORD_SIZE_MAX: Final = 4096
_MAGICS = (MAGIC_V1,) * _BLOCK
# After blocks did not match, at most this many records are read one by one before the next attempt.
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


class _TailColumns(NamedTuple):
    topics: list[Any]
    tags_codes: list[Any]
    keys: list[Any]
    unique_keys: list[Any]
    tags: list[Any]


def peek_columns(buffer: bytes, at: int, physical_offset: int) -> Columns:
    """Return the records of `peek_run` with `check_crc` as columns, faster if they are many."""
    flat = _read_heads(buffer, at, physical_offset - at)
    sizes, _, _, queue_ids, queue_offsets, offsets, flags, timestamps, _, tails = (
        flat[field::_FIELDS] for field in range(_FIELDS)
    )
    found = _tail_columns(tails) if tails else None
    if found is None:
        # The first record is unusual, or the tail of any.
        return Columns.of(peek_run(buffer, at, physical_offset, check_crc=True))
    return Columns(sizes, found.topics, queue_ids, queue_offsets, offsets, flags, timestamps, tails, *found[1:])


def _read_heads(buffer: bytes, at: int, shift: int) -> list[Any]:
    """Return the fields of consecutive records in one flat list, up to the first invalid or unusual one.

    `shift` is the physical offset of a record minus its index in the buffer.
    """
    flat: list[Any] = []
    unpack, head_size, crc32 = _HEAD.unpack_from, _HEAD.size, zlib_ng.crc32
    view, limit = memoryview(buffer), len(buffer)
    last = limit - head_size - 3
    size_before, resume, pause = 0, 0, _BLOCK
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
        if size == size_before and at >= resume and size <= _BLOCK_RECORD_SIZE_MAX:
            start, block = at, _block(body_size, end - body_end)
            while at + block.size <= limit and (fields := block.read(buffer, at, shift)):
                flat += fields
                at += block.size
            if at > start:
                pause = _BLOCK
                continue
            resume = at + pause * size
            pause = min(2 * pause, _PAUSE_MAX)
        if crc32(view[body_start:body_end]) & CRC_MASK != head[2]:
            break
        flat += head
        flat.append(buffer[body_end:end])
        size_before, at = size, end
    return flat


class _Block:
    """Decodes _BLOCK adjacent records whose bodies and tails have the same sizes."""

    def __init__(self, body_size: int, tail_size: int) -> None:
        head = _HEAD.format[1:]
        self._fields = struct.Struct(">" + f"{head}{body_size}x{tail_size}s" * _BLOCK)
        self._bodies = struct.Struct(">" + f"{_HEAD.size}x{body_size}s{tail_size}x" * _BLOCK)
        self._sizes = (_HEAD.size + body_size + tail_size,) * _BLOCK
        self._body_sizes = (body_size,) * _BLOCK
        self.size = self._fields.size

    def read(self, buffer: bytes, at: int, shift: int) -> tuple[Any, ...]:
        """Return the fields of all records; empty if a size, magic, offset or CRC does not match."""
        fields = self._fields.unpack_from(buffer, at)
        if (
            fields[0::_FIELDS] != self._sizes
            or fields[1::_FIELDS] != _MAGICS
            or fields[8::_FIELDS] != self._body_sizes
            or fields[5::_FIELDS] != tuple(range(at + shift, at + shift + self.size, self._sizes[0]))
            or any(flag & HOSTS_MASK for flag in set(fields[6::_FIELDS]))
        ):
            return ()
        # Bodies are unpacked separately and dropped at once, so that the result holds no copies of them.
        crcs = [crc & CRC_MASK for crc in map(zlib_ng.crc32, self._bodies.unpack_from(buffer, at))]
        return fields if fields[2::_FIELDS] == tuple(crcs) else ()


_block = functools.lru_cache(maxsize=64)(_Block)


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
    """Decode tails one by one."""
    found = _TailColumns([], [], [], [], [])
    add_topic, add_code, add_keys, add_unique_key, add_tag = (column.append for column in found)
    topic_of: dict[bytes, tuple[str, int]] = {}
    for tail in tails:
        size, start = len(tail), tail[0] + 3
        prefix = tail[:start]
        topic, declared_size = topic_of.get(prefix) or topic_of.setdefault(prefix, (_topic(prefix, size), size))
        if not topic or declared_size != size or size - start >= SECTOR_SIZE or (size > start and not tail[-1]):
            return None
        # The inlined `find` of `peek_run`.
        tag = keys = unique_key = b""
        code = 0
        at = tail.rfind(TAGS_MARK, start)
        if at >= 0:
            stop = tail.find(_END, at)
            if stop > 0 and (at == start or tail[at - 1] == 2):
                tag = tail[at + 5 : stop]
            tag = tag or find(tail[start:], TAGS_MARK)
            code = short_tags_code(tag) if len(tag) <= SHORT_TAG_SIZE_MAX else tags_code(tag)
        at = tail.rfind(KEYS_MARK, start)
        if at >= 0:
            stop = tail.find(_END, at)
            if stop > 0 and (at == start or tail[at - 1] == 2):
                keys = tail[at + 5 : stop]
            keys = keys or find(tail[start:], KEYS_MARK)
        at = tail.rfind(UNIQ_KEY_MARK, start)
        if at >= 0:
            stop = tail.find(_END, at)
            if stop > 0 and (at == start or tail[at - 1] == 2):
                unique_key = tail[at + 9 : stop]
            unique_key = unique_key or find(tail[start:], UNIQ_KEY_MARK)
        add_topic(topic)
        add_code(code)
        add_keys(keys)
        add_unique_key(unique_key)
        add_tag(tag)
    return found


def _topic(prefix: bytes, tail_size: int) -> str:
    """Return the topic from the bytes before the properties; empty if the lengths do not add up."""
    is_whole = len(prefix) == prefix[0] + 3 and len(prefix) + int.from_bytes(prefix[-2:]) == tail_size
    return known_topic(prefix[1:-2]) if is_whole else ""


def _uniform_tails(tails: Sequence[bytes]) -> _TailColumns | None:
    """Decode tails of one size whose properties are at the same positions; None if they are not."""
    first, count = tails[0], len(tails)
    size, start = len(first), first[0] + 3
    if start > size or size - start >= SECTOR_SIZE:
        return None
    text = b"".join(tails)
    if size > start and b"\0" in text[size - 1 :: size]:
        return None
    spans: list[tuple[int, int]] = []
    for marked in _MARKS:
        at = first.find(marked, start)
        if at < 0:
            if marked in text:
                return None
            spans.append((start, start))
            continue
        begin = at + len(marked)
        stop = first.find(_END, begin)
        # Each tail must have the marker exactly once and at this position, preceded by the end of another property and
        # followed by a value that ends at `stop`.
        fixed = [*range(max(at - 1, start), begin), stop]
        if (
            stop <= begin
            or (at > start and first[at - 1] != _END[0])
            or text.count(marked) != count
            or any(text[index::size] != first[index : index + 1] * count for index in fixed)
        ):
            return None
        spans.append((begin, stop))
    columns: list[list[bytes]] = [[b""] * count] * len(spans)
    order = sorted((span, number) for number, span in enumerate(spans) if span[0] < span[1])
    block = _values_block(size, start, tuple(span for span, _ in order))
    flat: list[bytes] = []
    for fields in block.iter_unpack(text + bytes(-len(text) % block.size)):
        flat += fields
    step = len(order) + 1
    prefixes = flat[::step][:count]
    for field, (_, number) in enumerate(order, 1):
        columns[number] = flat[field::step][:count]
        if number < 2 and _END in b"".join(columns[number]):
            return None
    unique_keys, keys, tags = columns
    topic_of = {prefix: _topic(prefix, size) for prefix in set(prefixes)}
    code_of = {tag: tags_code(tag) for tag in set(tags)}
    if not all(topic_of.values()) or any(_END in tag for tag in code_of):
        return None
    topics = [topic_of[prefixes[0]]] * count if len(topic_of) == 1 else [topic_of[prefix] for prefix in prefixes]
    return _TailColumns(topics, list(map(code_of.__getitem__, tags)), keys, unique_keys, tags)


@functools.lru_cache(maxsize=64)
def _values_block(size: int, start: int, spans: tuple[tuple[int, int], ...]) -> struct.Struct:
    """Return a Struct for _BLOCK tails: the bytes before the properties, and the values at `spans`."""
    parts, at = [f"{start}s"], start
    for begin, stop in spans:
        parts.append(f"{begin - at}x{stop - begin}s")
        at = stop
    return struct.Struct(">" + "".join([*parts, f"{size - at}x"]) * _BLOCK)
