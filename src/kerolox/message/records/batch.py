"""A batch: several messages for one queue in the body of one request (MessageDecoder.encodeMessages).

int32  size of this part             int32 + n   body
int32  magic, and int32 CRC: both 0  int16 + n   properties
int32  flag
"""

import struct
from collections.abc import Iterable

import msgspec
from zlib_ng import zlib_ng

from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.message import CRC_MASK, Message
from kerolox.message.records.layout import PART_HEAD
from kerolox.message.records.record import PROPERTIES_SIZE_MAX, Buffer, shared_head

_SHORT = struct.Struct(">h")
PART_SIZE_MIN = PART_HEAD.size + _SHORT.size


class Part(msgspec.Struct, gc=False):
    """The fields of one message of a batch; it shares all others with the rest of the batch."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


def encode(parts: Iterable[Part]) -> bytes:
    pieces: list[bytes] = []
    for part in parts:
        pieces += pieces_of(part.body, part.properties, part.flag)
    return b"".join(pieces)


def pieces_of(body: bytes, properties: bytes, flag: int = 0) -> tuple[bytes, bytes, bytes, bytes]:
    """Return the byte strings that make up an encoded part; MessageIllegal if the properties are too long."""
    body_size, properties_size = len(body), len(properties)
    if properties_size > PROPERTIES_SIZE_MAX:
        raise MessageIllegal(f"properties of {properties_size} bytes, at most {PROPERTIES_SIZE_MAX} allowed")
    head = PART_HEAD.pack(PART_SIZE_MIN + body_size + properties_size, flag, body_size)
    return head, body, _SHORT.pack(properties_size), properties


def decode(data: Buffer) -> list[Part]:
    """Decode a batch, at most one part per 22 bytes; RecordError if it is malformed."""
    parts: list[Part] = []
    at, end = 0, len(data)
    while at < end:
        flag, body_end, stop = _part(data, at, end, len(parts))
        parts.append(Part(bytes(data[at + PART_HEAD.size : body_end]), bytes(data[body_end + 2 : stop]), flag))
        at = stop
    return parts


def has_at_most(data: bytes, parts_max: int) -> bool:
    """Whether a batch has at most `parts_max` parts, without decoding it; True for malformed data."""
    if len(data) <= parts_max * PART_SIZE_MIN:
        return True
    size = PART_HEAD.unpack_from(data)[0]
    if size >= PART_SIZE_MIN and len(data) <= parts_max * size and len(data) % size == 0:
        sizes = [data[at::size] for at in range(4)]
        if all(column.count(column[0]) == len(column) for column in sizes):
            # All parts have one size, the usual case.
            return True
    at, end = 0, len(data) - PART_SIZE_MIN
    for _ in range(parts_max):
        if at > end:
            return True
        at += max(PART_HEAD.unpack_from(data, at)[0], PART_SIZE_MIN)
    return at >= len(data)


def to_records(data: bytes, shared: Message) -> tuple[bytearray, tuple[int, ...], list[bytes]]:
    """Return the records of all parts, the start of each, and the properties of each.

    All fields but body, flag and properties come from `shared`. RecordError as in `decode`.
    """
    head, magic, between, topic = shared_head(shared)
    queue_id, crc32, pack = shared.queue_id, zlib_ng.crc32, head.pack
    more = head.size + len(topic) - PART_HEAD.size
    pieces: list[bytes] = []
    starts: list[int] = []
    properties: list[bytes] = []
    at, start, end = 0, 0, len(data)
    while at < end:
        flag, body_end, stop = _part(data, at, end, len(starts))
        body = data[at + PART_HEAD.size : body_end]
        size = stop - at + more
        packed = pack(size, magic, crc32(body) & CRC_MASK, queue_id, flag, between, len(body))
        # A part ends like a record: with the length of the properties and the properties.
        pieces += (packed, body, topic, data[body_end:stop])
        starts.append(start)
        properties.append(data[body_end + 2 : stop])
        at = stop
        start += size
    return bytearray().join(pieces), tuple(starts), properties


def _part(data: Buffer, at: int, end: int, number: int) -> tuple[int, int, int]:
    """Return flag, end of the body and end of the part at `at`; `number` is for error messages."""
    if end - at < PART_SIZE_MIN:
        raise RecordError(f"part {number} of a batch is truncated: {end - at} bytes, at least 22 needed")
    size, flag, body_size = PART_HEAD.unpack_from(data, at)
    body_end = at + PART_HEAD.size + body_size
    stop = at + size
    if size > end - at:
        raise RecordError(f"part {number} of a batch is truncated: {end - at} of {size} bytes")
    if body_size < 0 or body_end + 2 > stop:
        raise RecordError(f"part {number} of a batch has a body of {body_size} bytes in {size}")
    (properties_size,) = _SHORT.unpack_from(data, body_end)
    if body_end + 2 + properties_size != stop:
        raise RecordError(f"part {number} of a batch has properties of {properties_size} bytes in {size}")
    return flag, body_end, stop
