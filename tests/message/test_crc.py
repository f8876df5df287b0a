"""The checksum over a whole record."""

from __future__ import annotations

import zlib

from hypothesis import given
from msgspec.structs import replace

from kerolox.message import crc
from kerolox.message.message import Message
from kerolox.message.record import decode, encode, stamp
from tests.message.examples import HELLO, HELLO_RECORD, messages


def sealed(message: Message) -> bytearray:
    record = encode(replace(message, properties=crc.with_room(message.properties)))
    stamp(record, 5, 6, 7)
    crc.seal(record)
    return record


def test_the_digits_stand_lowest_first() -> None:
    record = sealed(HELLO)
    digits = f"{zlib.crc32(record[:-20]) & 0x7FFFFFFF:010d}"

    assert record[-20:] == b"__CRC32#\x01" + digits[::-1].encode() + b"\x02"
    assert crc.is_intact(record)


@given(messages())
def test_every_record_can_be_sealed(message: Message) -> None:
    record = sealed(message)

    assert crc.is_intact(record)
    assert decode(record, check_crc=True).physical_offset == 6


def test_a_record_is_sealed_and_checked_where_it_lies() -> None:
    record = sealed(HELLO)
    buffer = bytearray(b"before") + encode(replace(HELLO, properties=crc.with_room(HELLO.properties))) + b"after"
    stamp(buffer, 5, 6, 7, at=6)

    crc.seal(buffer, at=6)

    assert buffer == b"before" + record + b"after"
    assert crc.is_intact(memoryview(buffer), at=6)


def test_any_changed_byte_is_noticed() -> None:
    record = sealed(HELLO)
    for at in range(len(record)):
        changed = bytearray(record)
        changed[at] ^= 0x04
        assert not crc.is_intact(changed)


def test_a_record_without_a_checksum_is_not_intact() -> None:
    assert not crc.is_intact(HELLO_RECORD)
    assert not crc.is_intact(HELLO_RECORD[:100])


def test_room_is_made_once_and_after_a_separator() -> None:
    room = b"__CRC32#\x010000000000\x02"

    assert crc.with_room(b"") == room
    assert crc.with_room(b"a\x01b") == b"a\x01b\x02" + room
    assert crc.with_room(b"__CRC32#\x017\x02a\x01b\x02") == b"a\x01b\x02" + room
    assert crc.with_room(b"a\x01b\x02" + room) == b"a\x01b\x02" + room
