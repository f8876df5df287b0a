"""A batch: several messages for one queue in the body of one request.

int32  size of this part             int32 + n   body
int32  magic, and int32 CRC: both 0  int16 + n   properties
int32  flag
"""

import struct
from collections.abc import Iterable

import msgspec

from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.record import PROPERTIES_SIZE_MAX, Buffer

_HEAD = struct.Struct(">I8xii")
_SHORT = struct.Struct(">h")
PART_SIZE_MIN = _HEAD.size + _SHORT.size


class Part(msgspec.Struct, gc=False):
    """What one message of a batch has for itself; all else it shares with the others."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


def encode(parts: Iterable[Part]) -> bytes:
    pieces: list[bytes] = []
    for part in parts:
        if len(part.properties) > PROPERTIES_SIZE_MAX:
            raise MessageIllegal(f"properties of {len(part.properties)} bytes, at most {PROPERTIES_SIZE_MAX} allowed")
        size = PART_SIZE_MIN + len(part.body) + len(part.properties)
        pieces += (
            _HEAD.pack(size, part.flag, len(part.body)),
            part.body,
            _SHORT.pack(len(part.properties)),
            part.properties,
        )
    return b"".join(pieces)


def decode(data: Buffer) -> list[Part]:
    """Returns the parts of a batch, or raises RecordError; never more than one for each 22 bytes."""
    parts: list[Part] = []
    at, end = 0, len(data)
    while at < end:
        if end - at < PART_SIZE_MIN:
            raise RecordError(f"part {len(parts)} of a batch is cut off: {end - at} bytes, at least 22 needed")
        size, flag, body_size = _HEAD.unpack_from(data, at)
        body_start = at + _HEAD.size
        body_end = body_start + body_size
        stop = at + size
        if size > end - at:
            raise RecordError(f"part {len(parts)} of a batch is cut off: {end - at} of {size} bytes")
        if body_size < 0 or body_end + 2 > stop:
            raise RecordError(f"part {len(parts)} of a batch has a body of {body_size} bytes in {size}")
        (properties_size,) = _SHORT.unpack_from(data, body_end)
        if body_end + 2 + properties_size != stop:
            raise RecordError(f"part {len(parts)} of a batch has properties of {properties_size} bytes in {size}")
        parts.append(Part(bytes(data[body_start:body_end]), bytes(data[body_end + 2 : stop]), flag))
        at = stop
    return parts
