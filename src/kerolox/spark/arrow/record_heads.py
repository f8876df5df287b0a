"""Decodes the fixed fields of many records into arrays; every length is checked before it is used."""

import functools
import struct
from array import array
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerolox.message.errors import RecordError
from kerolox.message.records.layout import HOST_SIZES, HOSTS_AT, RECORD_SIZE_MIN, fields
from kerolox.message.records.record import MAGIC_V1, MAGIC_V2, TOPIC_SIZE_MAX, decode

# A buffer of records.
Records: TypeAlias = bytes | memoryview
Longs: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]
Heads: TypeAlias = npt.NDArray[Any]

# numpy's types of the formats of struct.
_KINDS: Final = {"I": ">u4", "i": ">i4", "q": ">i8"}
# All fields up to the body, by the two host bits of sysFlag: both IPv4, born host IPv6, store host IPv6, both IPv6.
HEADS: Final = tuple(
    np.dtype([(name, _KINDS.get(kind) or f"V{kind[:-1]}") for name, kind in fields(hosts)])
    for hosts in range(len(HOST_SIZES))
)
# After this many records of one size, `walk` compares the sizes of all following records at once.
_EQUAL_SIZE_MIN: Final = 16
_unpack_size = struct.Struct(">I").unpack_from


@dataclass(slots=True)
class RecordHeads:
    """Records with hosts of the same length: their heads, and the positions of the other fields in the buffer."""

    starts: Longs
    heads: Heads
    body_starts: Longs
    body_ends: Longs
    topic_starts: Longs
    topic_ends: Longs
    ends: Longs
    # The topic, if all records are known to have the same one.
    topic: bytes | None = None

    @property
    def properties_starts(self) -> Longs:
        return self.topic_ends + 2

    def __len__(self) -> int:
        return len(self.starts)

    def first(self, count: int) -> "RecordHeads":
        """Return the first `count` records."""
        return self if count == len(self) else self.select(slice(count))

    def select(self, rows: Mask | slice) -> "RecordHeads":
        return RecordHeads(
            self.starts[rows],
            self.heads[rows],
            self.body_starts[rows],
            self.body_ends[rows],
            self.topic_starts[rows],
            self.topic_ends[rows],
            self.ends[rows],
            self.topic,
        )


def walk(buffer: Records, at: int, stop: int, rows_max: int) -> tuple[Longs, int]:
    """Return the starts of records from `at` to before `stop`, following their sizes, and the end of the last one.

    Stops at the first record that is not complete.
    """
    found: list[int] = []
    parts: list[Longs] = []
    end = len(buffer)
    last = min(stop - 1, end - RECORD_SIZE_MIN)
    known, times = 0, 0
    while at <= last and rows_max > 0:
        (size,) = _unpack_size(buffer, at)
        if size < RECORD_SIZE_MIN or at + size > end:
            break
        found.append(at)
        rows_max -= 1
        at += size
        if size != known:
            known, times = size, 0
            continue
        times += 1
        if times == _EQUAL_SIZE_MIN:
            times = 0
            count = min((end - at) // size, (last - at) // size + 1, rows_max)
            if count > 0:
                differ = np.ndarray((count,), ">u4", buffer, at, (size,)) != size
                count = int(differ.argmax()) if differ.any() else count
                parts += [_longs(found), np.arange(at, at + size * count, size)]
                found = []
                rows_max -= count
                at += size * count
    parts.append(_longs(found))
    return np.concatenate(parts), at


def _longs(values: list[int]) -> Longs:
    return np.frombuffer(array("q", values), np.int64)


def byte_windows(buffer: Records | pa.Buffer | Bytes, size: int) -> Heads:
    """Return a view with a piece of `size` bytes for every position of the buffer."""
    return np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))


def gather(buffer: Records | pa.Buffer | Bytes, size: int, starts: Longs) -> Heads:
    """Return a copy of `size` bytes from each start on."""
    stride = constant_stride(starts)
    if stride is None:
        return byte_windows(buffer, size)[starts]
    return strided(buffer, int(starts[0]), stride, len(starts), size).copy()


def strided(buffer: Records | pa.Buffer | Bytes, start: int, stride: int, count: int, size: int) -> Heads:
    """Return a view of `count` pieces of `size` bytes that are `stride` bytes apart."""
    return np.ndarray((count,), f"V{size}", buffer, start, (stride,))


def constant_stride(starts: Longs) -> int | None:
    """Return the distance between starts; None if it varies, or there are too few to be worth it."""
    count = len(starts)
    if count < _EQUAL_SIZE_MIN:
        return None
    first, stride = int(starts[0]), int(starts[1] - starts[0])
    is_constant = stride > 0 and int(starts[-1]) - first == stride * (count - 1) and (np.diff(starts) == stride).all()
    return stride if is_constant else None


def low_flags(buffer: Records, starts: Longs) -> Bytes:
    """Return the last byte of each sysFlag, which contains the host bits."""
    if len(starts) and int(starts[-1]) + RECORD_SIZE_MIN > len(buffer):
        raise RecordError(f"record at {starts[-1]} is cut off: {len(buffer) - int(starts[-1])} bytes")
    return np.frombuffer(buffer, np.uint8).take(starts + HOSTS_AT)


def host_layouts(flags: Bytes) -> Bytes:
    """Return the index into HEADS for each record."""
    return (flags >> 4 & 3).astype(np.uint8)


def read_heads(buffer: Records, starts: Longs, ends: Longs, kind: int) -> RecordHeads:
    """Return the heads of records that all have host layout `kind`; NotARecord if one is invalid."""
    head = HEADS[kind]
    sizes = ends - starts
    if (sizes < head.itemsize + 3).any() or (len(ends) and int(ends[-1]) > len(buffer)):
        raise _invalid_record(buffer, starts, sizes < head.itemsize + 3)
    heads = gather(buffer, head.itemsize, starts).view(head)
    body_starts = starts + head.itemsize
    body_ends = body_starts + heads["body_size"]
    is_v2 = heads["magic"] != MAGIC_V1
    has_v2 = bool(is_v2.any())
    topic_starts: Longs = body_ends + 1 + is_v2
    bad = (heads["size"] != sizes) | (body_ends < body_starts) | (topic_starts + 2 > ends)
    if has_v2:
        bad |= is_v2 & (heads["magic"] != MAGIC_V2)
    if bad.any():
        raise _invalid_record(buffer, starts, bad)
    if not has_v2 and len(starts):
        found = _heads_of_one_topic(buffer, starts, heads, body_starts, body_ends, ends)
        if found is not None:
            return found
    octets = np.frombuffer(buffer, np.uint8)
    topic_sizes = octets[topic_starts - 1].astype(np.int64)
    bad = ~is_v2 & (topic_sizes > TOPIC_SIZE_MAX)
    topic_sizes += is_v2 * (octets[topic_starts - 2].astype(np.int64) << 8)
    topic_ends = topic_starts + topic_sizes
    bad |= topic_ends + 2 > ends
    if bad.any():
        raise _invalid_record(buffer, starts, bad)
    properties_sizes = octets[topic_ends].astype(np.int64) << 8 | octets[topic_ends + 1]
    bad = topic_ends + 2 + properties_sizes != ends
    if bad.any():
        raise _invalid_record(buffer, starts, bad)
    return RecordHeads(starts, heads, body_starts, body_ends, topic_starts, topic_ends, ends)


def _heads_of_one_topic(
    buffer: Records, starts: Longs, heads: Heads, body_starts: Longs, body_ends: Longs, ends: Longs
) -> RecordHeads | None:
    """Fast path: returns the heads if all records are valid and have the same topic, else None."""
    topic_size = buffer[int(body_ends[0])]
    tail = _tail(topic_size)
    if topic_size > TOPIC_SIZE_MAX or (body_ends + tail.itemsize > ends).any():
        return None
    tails = gather(buffer, tail.itemsize, body_ends).view(tail)
    topics = tails["topic"].tobytes()
    topic = topics[: topic_size + 1]
    if topics != topic * len(starts):
        return None
    topic_starts = body_ends + 1
    topic_ends = topic_starts + topic_size
    if (topic_ends + 2 + tails["properties_size"] != ends).any():
        return None
    return RecordHeads(starts, heads, body_starts, body_ends, topic_starts, topic_ends, ends, topic[1:])


@functools.lru_cache(maxsize=256)
def _tail(topic_size: int) -> np.dtype[Any]:
    """The fields between body and properties: length and text of the topic, and the length of the properties."""
    return np.dtype([("topic", f"V{topic_size + 1}"), ("properties_size", ">u2")])


def _invalid_record(buffer: Records, starts: Longs, bad: Mask) -> "NotARecord":
    """Return the error of the first bad record, with the message of the decoder for single records."""
    number = int(bad.argmax())
    at = int(starts[number])
    try:
        decode(buffer, at)
    except RecordError as error:
        return NotARecord(str(error), number)
    return NotARecord(f"record at {at} has a size that differs from its actual length", number)


class NotARecord(RecordError):
    """The first invalid one of many records; `number` is its index."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number
