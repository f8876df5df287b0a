"""The fixed fields of many records at once, as arrays; nothing of a record is trusted before it was checked."""

import functools
import struct
from array import array
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerolox.message.errors import RecordError
from kerolox.message.record import HOSTS_AT, MAGIC_V1, MAGIC_V2, TOPIC_SIZE_MAX, decode

# What records lie in.
Records: TypeAlias = bytes | memoryview
Longs: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]
Heads: TypeAlias = npt.NDArray[Any]

# All up to the body, by the two bits of sysFlag: both hosts IPv4, born host IPv6, store host IPv6, both IPv6.
HEADS: Final = tuple(
    np.dtype(
        [
            ("size", ">u4"),
            ("magic", ">u4"),
            ("crc", ">u4"),
            ("queue_id", ">i4"),
            ("flag", ">i4"),
            ("queue_offset", ">i8"),
            ("physical_offset", ">i8"),
            ("sys_flag", ">i4"),
            ("born_timestamp", ">i8"),
            ("born_host", f"V{born}"),
            ("store_timestamp", ">i8"),
            ("store_host", f"V{store}"),
            ("reconsume_times", ">i4"),
            ("prepared_transaction_offset", ">i8"),
            ("body_size", ">i4"),
        ]
    )
    for born, store in ((8, 8), (20, 8), (8, 20), (20, 20))
)
# A head with two IPv4 hosts, the length of the topic and that of the properties.
RECORD_SIZE_MIN: Final = HEADS[0].itemsize + 3
# After so many records of one size more of them are looked for.
_ALIKE_MIN: Final = 16
_unpack_size = struct.Struct(">I").unpack_from


@dataclass(slots=True)
class Fields:
    """Records with hosts of the same length: their heads, and where in the buffer the rest of each lies."""

    starts: Longs
    heads: Heads
    body_starts: Longs
    body_ends: Longs
    topic_starts: Longs
    topic_ends: Longs
    ends: Longs
    # Where they are known to have one topic: that.
    topic: bytes | None = None

    @property
    def properties_starts(self) -> Longs:
        return self.topic_ends + 2

    def __len__(self) -> int:
        return len(self.starts)

    def kept(self, mask: Mask) -> "Fields":
        """Returns those of the records that the mask marks."""
        return self if mask.all() else self.chosen(mask)

    def first(self, count: int) -> "Fields":
        """Returns so many of the records."""
        return self if count == len(self) else self.chosen(slice(count))

    def chosen(self, rows: Mask | slice) -> "Fields":
        return Fields(
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
    """Returns where records begin, from `at` on and before `stop`, as far as sizes tell; and where the last one ends.

    It goes no further than the first that is not whole.
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
        if times == _ALIKE_MIN:
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


def everywhere(buffer: Records | pa.Buffer | Bytes, size: int) -> Heads:
    """Returns an array of pieces, each of which begins one byte after the one before it."""
    return np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))


def gathered(buffer: Records | pa.Buffer | Bytes, size: int, starts: Longs) -> Heads:
    """Returns a copy of so many bytes from each start on."""
    stride = even_stride(starts)
    if stride is None:
        return everywhere(buffer, size)[starts]
    return spaced(buffer, int(starts[0]), stride, len(starts), size).copy()


def spaced(buffer: Records | pa.Buffer | Bytes, start: int, stride: int, count: int, size: int) -> Heads:
    """Returns an array of pieces, each of which begins so many bytes after the one before it."""
    return np.ndarray((count,), f"V{size}", buffer, start, (stride,))


def even_stride(starts: Longs) -> int | None:
    """Returns how far each is from the one before it; None if that differs, or there are only few."""
    count = len(starts)
    if count < _ALIKE_MIN:
        return None
    first, stride = int(starts[0]), int(starts[1] - starts[0])
    is_even = stride > 0 and int(starts[-1]) - first == stride * (count - 1) and (np.diff(starts) == stride).all()
    return stride if is_even else None


def low_flags(buffer: Records, starts: Longs) -> Bytes:
    """Returns the last byte of each sysFlag; it says, among else, how long the hosts are."""
    if len(starts) and int(starts[-1]) + RECORD_SIZE_MIN > len(buffer):
        raise RecordError(f"record at {starts[-1]} is cut off: {len(buffer) - int(starts[-1])} bytes")
    return np.frombuffer(buffer, np.uint8).take(starts + HOSTS_AT)


def host_kinds(flags: Bytes) -> Bytes:
    """Returns for each record which of HEADS it has."""
    return (flags >> 4 & 3).astype(np.uint8)


def fields(buffer: Records, starts: Longs, ends: Longs, kind: int) -> Fields:
    """Returns the fields of the records that begin at `starts`; RecordError if one is none."""
    head = HEADS[kind]
    sizes = ends - starts
    if (sizes < head.itemsize + 3).any() or (len(ends) and int(ends[-1]) > len(buffer)):
        raise _wrong(buffer, starts, sizes < head.itemsize + 3)
    heads = gathered(buffer, head.itemsize, starts).view(head)
    body_starts = starts + head.itemsize
    body_ends = body_starts + heads["body_size"]
    is_v2 = heads["magic"] != MAGIC_V1
    has_v2 = bool(is_v2.any())
    topic_starts: Longs = body_ends + 1 + is_v2
    bad = (heads["size"] != sizes) | (body_ends < body_starts) | (topic_starts + 2 > ends)
    if has_v2:
        bad |= is_v2 & (heads["magic"] != MAGIC_V2)
    if bad.any():
        raise _wrong(buffer, starts, bad)
    if not has_v2 and len(starts):
        found = _of_one_topic(buffer, starts, heads, body_starts, body_ends, ends)
        if found is not None:
            return found
    octets = np.frombuffer(buffer, np.uint8)
    topic_sizes = octets[topic_starts - 1].astype(np.int64)
    bad = ~is_v2 & (topic_sizes > TOPIC_SIZE_MAX)
    topic_sizes += is_v2 * (octets[topic_starts - 2].astype(np.int64) << 8)
    topic_ends = topic_starts + topic_sizes
    bad |= topic_ends + 2 > ends
    if bad.any():
        raise _wrong(buffer, starts, bad)
    properties_sizes = octets[topic_ends].astype(np.int64) << 8 | octets[topic_ends + 1]
    bad = topic_ends + 2 + properties_sizes != ends
    if bad.any():
        raise _wrong(buffer, starts, bad)
    return Fields(starts, heads, body_starts, body_ends, topic_starts, topic_ends, ends)


def _of_one_topic(
    buffer: Records, starts: Longs, heads: Heads, body_starts: Longs, body_ends: Longs, ends: Longs
) -> Fields | None:
    """Returns the fields if all is well with the records and they have the topic of the first of them."""
    topic_size = buffer[int(body_ends[0])]
    tail = _tail(topic_size)
    if topic_size > TOPIC_SIZE_MAX or (body_ends + tail.itemsize > ends).any():
        return None
    tails = gathered(buffer, tail.itemsize, body_ends).view(tail)
    topics = tails["topic"].tobytes()
    topic = topics[: topic_size + 1]
    if topics != topic * len(starts):
        return None
    topic_starts = body_ends + 1
    topic_ends = topic_starts + topic_size
    if (topic_ends + 2 + tails["properties_size"] != ends).any():
        return None
    return Fields(starts, heads, body_starts, body_ends, topic_starts, topic_ends, ends, topic[1:])


@functools.lru_cache(maxsize=256)
def _tail(topic_size: int) -> np.dtype[Any]:
    """What lies between a body and the properties: the topic with its length before it, and their length."""
    return np.dtype([("topic", f"V{topic_size + 1}"), ("properties_size", ">u2")])


def _wrong(buffer: Records, starts: Longs, bad: Mask) -> "NoRecord":
    """Returns what is wrong with the first record that is bad, in the words of the decoder for one."""
    number = int(bad.argmax())
    at = int(starts[number])
    try:
        decode(buffer, at)
    except RecordError as error:
        return NoRecord(str(error), number)
    return NoRecord(f"record at {at} has another size than the place in which it lies", number)


class NoRecord(RecordError):
    """The first of many records that is none, by its number."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number
