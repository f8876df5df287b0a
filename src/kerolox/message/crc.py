"""The checksum over a whole record, kept as its last property (5.x, enabledAppendPropCRC).

`__CRC32#`, 0x01, ten decimal digits with the lowest first, 0x02: always twenty bytes, which it does not cover itself.
"""

import struct
from typing import Final

from zlib_ng import zlib_ng

from kerolox.message import names
from kerolox.message.message import CRC_MASK
from kerolox.message.properties import join, mark, remove
from kerolox.message.record import Buffer, size_and_magic

CRC_SIZE: Final = 20
_MARK = mark(names.CRC32)
_ROOM = _MARK + b"0000000000\x02"
_DIGITS = struct.Struct(">10s")

assert len(_ROOM) == CRC_SIZE


def with_room(properties: bytes) -> bytes:
    """Returns properties that end with room for the checksum; one that came with them is left out."""
    return join(remove(properties, _MARK), _ROOM)


def seal(record: bytearray, at: int = 0) -> None:
    """Writes the checksum into the room for it, once the record is stamped and nothing in it will change."""
    end = at + size_and_magic(record, at)[0]
    assert record[end - CRC_SIZE :].startswith(_MARK)
    _DIGITS.pack_into(record, end - CRC_SIZE + len(_MARK), _digits(record, at, end))


def is_intact(record: Buffer, at: int = 0) -> bool:
    """Whether the record has a checksum, and the right one."""
    end = at + size_and_magic(record, at)[0]
    if end > len(record) or end - at < CRC_SIZE:
        return False
    return bytes(record[end - CRC_SIZE : end]) == _MARK + _digits(record, at, end) + b"\x02"


def _digits(record: Buffer, at: int, end: int) -> bytes:
    covered = memoryview(record)[at : end - CRC_SIZE]
    return f"{zlib_ng.crc32(covered) & CRC_MASK:010d}"[::-1].encode()
