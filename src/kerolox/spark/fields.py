"""The fixed fields of many records at once, as arrays; nothing of a record is trusted before it was checked."""

import struct
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kerolox.message.errors import RecordError
from kerolox.message.record import HOSTS_AT, MAGIC_V1, MAGIC_V2, TOPIC_SIZE_MAX, decode

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
        )


def walk(buffer: bytes, at: int, stop: int, rows_max: int) -> tuple[list[int], int]:
    """Returns where records begin, from `at` on and before `stop`, as far as sizes tell; and where the last one ends.

    It goes no further than the first that is not whole.
    """
    found: list[int] = []
    end = len(buffer)
    last = min(stop - 1, end - RECORD_SIZE_MIN)
    known, times = 0, 0
    while at <= last and len(found) < rows_max:
        (size,) = _unpack_size(buffer, at)
        if size < RECORD_SIZE_MIN or at + size > end:
            break
        found.append(at)
        at += size
        times = times + 1 if size == known else 0
        known = size
        if times == _ALIKE_MIN:
            times = 0
            count = min((end - at) // size, (last - at) // size + 1, rows_max - len(found))
            if count > 0:
                differ = np.ndarray((count,), ">u4", buffer, at, (size,)) != size
                after = at + size * (int(differ.argmax()) if differ.any() else count)
                found += range(at, after, size)
                at = after
    return found, at


def host_kinds(buffer: bytes, starts: Longs) -> Bytes:
    """Returns for each record which of HEADS it has."""
    if len(starts) and int(starts[-1]) + RECORD_SIZE_MIN > len(buffer):
        raise RecordError(f"record at {starts[-1]} is cut off: {len(buffer) - int(starts[-1])} bytes")
    flags = np.frombuffer(buffer, np.uint8)[starts + HOSTS_AT]
    return (flags >> 4 & 3).astype(np.uint8)


def fields(buffer: bytes, starts: Longs, ends: Longs, kind: int) -> Fields:
    """Returns the fields of the records that begin at `starts`; RecordError if one is none."""
    head = HEADS[kind]
    if (ends - starts < head.itemsize + 3).any() or (len(ends) and int(ends[-1]) > len(buffer)):
        raise _wrong(buffer, starts, ends - starts < head.itemsize + 3)
    # An array of which each element begins one byte after the one before it, so that a record may begin anywhere.
    everywhere = np.ndarray((len(buffer) - head.itemsize + 1,), f"V{head.itemsize}", buffer, strides=(1,))
    heads = everywhere[starts].view(head)
    octets = np.frombuffer(buffer, np.uint8)
    body_starts = starts + head.itemsize
    body_ends = body_starts + heads["body_size"]
    is_v2 = heads["magic"] == MAGIC_V2
    has_v2 = bool(is_v2.any())
    length_size = 1 + is_v2 if has_v2 else 1
    topic_starts: Longs = body_ends + length_size
    bad = (heads["size"] != ends - starts) | (heads["body_size"] < 0) | (topic_starts + 2 > ends)
    bad |= ~is_v2 & (heads["magic"] != MAGIC_V1)
    if bad.any():
        raise _wrong(buffer, starts, bad)
    topic_sizes = octets[topic_starts - 1].astype(np.int64)
    bad = ~is_v2 & (topic_sizes > TOPIC_SIZE_MAX)
    if has_v2:
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


def _wrong(buffer: bytes, starts: Longs, bad: Mask) -> "NoRecord":
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
