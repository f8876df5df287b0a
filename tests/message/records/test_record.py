"""Encoding and decoding records."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kerolox.codes import ResponseCode
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.message import Message
from kerolox.message.records import record
from kerolox.message.records.record import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    decode,
    decode_all,
    encode,
    size_and_magic,
    stamp,
)
from kerolox.message.records.summary import peek
from tests.message.examples import HELLO, HELLO_RECORD, V4, V6, messages

LONG_RETRY = "%RETRY%" + "g" * 150
KINDS = {
    "v4": HELLO,
    "born-v6": replace(HELLO, born_host=V6, sys_flag=0x10),
    "store-v6": replace(HELLO, store_host=V6, sys_flag=0x20),
    "v6": replace(HELLO, born_host=V6, store_host=V6, sys_flag=0x30),
    "long-topic": replace(HELLO, topic=LONG_RETRY),
    "long-topic-v6": replace(HELLO, topic=LONG_RETRY, born_host=V6, store_host=V6, sys_flag=0x30),
    "bare": Message("t", b""),
}
each_kind = pytest.mark.parametrize("message", KINDS.values(), ids=KINDS)


def test_the_layout_is_that_of_the_reference() -> None:
    assert decode(HELLO_RECORD, check_crc=True) == HELLO
    assert encode(HELLO) == HELLO_RECORD


@given(messages())
def test_decoding_a_record_gives_the_message(message: Message) -> None:
    encoded = encode(message)

    assert decode(encoded, check_crc=True) == message
    assert size_and_magic(encoded)[0] == len(encoded)


@given(messages(), st.binary(max_size=50), st.binary(max_size=50))
def test_a_record_is_decoded_at_any_position(message: Message, before: bytes, after: bytes) -> None:
    buffer = before + encode(message) + after

    for kind in (bytes, bytearray, memoryview):
        assert decode(kind(buffer), len(before), check_crc=True) == message


@given(st.lists(messages(), max_size=4))
def test_adjacent_records_are_decoded(some: list[Message]) -> None:
    assert decode_all(b"".join(encode(message) for message in some), check_crc=True) == some


@pytest.mark.parametrize(
    ("born_host", "store_host", "size"), [(V4, V4, 91), (V6, V4, 103), (V4, V6, 103), (V6, V6, 115)]
)
def test_the_size_of_the_smallest_record_depends_on_its_hosts(born_host: bytes, store_host: bytes, size: int) -> None:
    assert len(encode(Message("", b"", born_host=born_host, store_host=store_host))) == size


def test_the_host_flags_follow_the_lengths_of_the_hosts() -> None:
    lying = replace(HELLO, sys_flag=0x34, store_host=V6)

    assert decode(encode(lying)).sys_flag == 0x24


# Stamping


@each_kind
def test_stamping_equals_encoding_with_these_fields(message: Message) -> None:
    before, after = bytearray(b"before"), bytearray(b"after")
    stamped = before + encode(message) + after

    stamp(stamped, 11, 2**40, 1700000001234, at=len(before))

    wanted = encode(replace(message, queue_offset=11, physical_offset=2**40, store_timestamp=1700000001234))
    assert stamped == before + wanted + after


# Magics


@pytest.mark.parametrize(("size", "magic"), [(120, MAGIC_V1), (121, MAGIC_V2)])
def test_a_topic_of_more_than_127_bytes_uses_magic_v2(size: int, magic: int) -> None:
    message = replace(HELLO, topic="%RETRY%" + "g" * size)

    assert size_and_magic(encode(message)) == (len(encode(message)), magic)
    assert decode(encode(message)) == message


def test_a_topic_can_be_checked_without_a_record() -> None:
    record.check_topic("t" * 127)

    with pytest.raises(MessageIllegal, match="topic of 128 bytes, at most 127 allowed"):
        record.check_topic("t" * 128)


def test_a_short_topic_with_magic_v2_is_decoded() -> None:
    encoded = encode(Message("t", b"hello"))
    at = encoded.index(b"\x01t")

    widened = struct.pack(">II", len(encoded) + 1, MAGIC_V2) + encoded[8:at] + b"\x00" + encoded[at:]

    assert decode(widened) == Message("t", b"hello")


def test_a_blank_record_has_eight_bytes_and_its_total_size() -> None:
    blank = record.blank(1000)

    assert blank == bytes.fromhex("000003E8 CBD43194")
    assert size_and_magic(blank) == (1000, BLANK_MAGIC)


@pytest.mark.parametrize("magic", [BLANK_MAGIC, 0, 0xDAA320A6])
def test_an_unknown_magic_is_rejected(magic: int) -> None:
    with pytest.raises(RecordError, match=f"record at 3 has magic {magic:#x}"):
        decode(b"abc" + HELLO_RECORD[:4] + struct.pack(">I", magic) + HELLO_RECORD[8:], 3)


# Limits


def test_the_longest_topic_properties_and_body_fit() -> None:
    message = replace(HELLO, topic="t" * 127, properties=b"p" * 32767, body=b"b" * 1000)

    assert decode(encode(message, body_size_max=1000)) == message


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (replace(HELLO, topic="t" * 128), "topic of 128 bytes, at most 127 allowed"),
        (replace(HELLO, topic="é" * 64), "topic of 128 bytes, at most 127 allowed"),
        (replace(HELLO, topic="%RETRY%" + "g" * 249), "topic of 256 bytes, at most 255 allowed"),
        (replace(HELLO, topic="%DLQ%" + "g" * 251), "topic of 256 bytes, at most 255 allowed"),
        (replace(HELLO, topic="\ud800"), "cannot be encoded as UTF-8"),
        (replace(HELLO, properties=b"p" * 32768), "properties of 32768 bytes, at most 32767 allowed"),
        (replace(HELLO, body=b"b" * 1001), "body of 1001 bytes, at most 1000 allowed"),
        (replace(HELLO, queue_id=2**31), "a number is too large for a record"),
        (replace(HELLO, born_timestamp=2**63), "a number is too large for a record"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_message_that_does_not_fit_into_a_record_is_rejected(message: Message, complaint: str) -> None:
    with pytest.raises(MessageIllegal, match=complaint) as raised:
        encode(message, body_size_max=1000)

    assert raised.value.code == ResponseCode.MESSAGE_ILLEGAL


# Damage


@each_kind
def test_a_truncated_record_is_rejected(message: Message) -> None:
    encoded = bytes(encode(message))
    for size in range(len(encoded)):
        for read in (decode, peek):
            with pytest.raises(RecordError, match="record at 0 is truncated"):
                read(encoded[:size])


@each_kind
def test_a_record_whose_size_is_too_small_is_rejected(message: Message) -> None:
    encoded = bytes(encode(message))
    for size in range(len(encoded)):
        for read in (decode, peek):
            with pytest.raises(RecordError):
                read(struct.pack(">I", size) + encoded[4:])


@each_kind
def test_a_changed_byte_is_decoded_as_it_is_or_rejected(message: Message) -> None:
    """Only the body has a checksum, so a changed queue id is decoded as another queue id."""
    encoded = bytes(encode(message))
    for at in range(len(encoded)):
        for change in (0x01, 0x80, 0xFF, 0x0C):
            changed = bytearray(encoded)
            changed[at] ^= change
            try:
                found = decode(changed)
            except RecordError:
                with pytest.raises(RecordError):
                    peek(changed)
                continue
            if 8 <= at < 12:
                assert found == message
            elif len(found.topic) <= 127 or found.topic.startswith("%RETRY%"):
                assert encode(found)[12:] == changed[12:]
            assert peek(changed).size == len(encoded)


@each_kind
def test_a_changed_body_or_crc_is_rejected_with_check_crc(message: Message) -> None:
    encoded = bytes(encode(message))
    body_at = len(encode(replace(message, topic="", body=b"", properties=b""))) - 3
    for at in (*range(8, 12), *range(body_at, body_at + len(message.body))):
        changed = bytearray(encoded)
        changed[at] ^= 0x10

        for read in (decode, peek):
            with pytest.raises(RecordError, match="but its body has 0x"):
                read(changed, check_crc=True)


@given(st.binary(max_size=300), st.sampled_from([MAGIC_V1, MAGIC_V2, BLANK_MAGIC]))
def test_arbitrary_bytes_raise_only_record_error(data: bytes, magic: int) -> None:
    for buffer in (data, struct.pack(">II", len(data) + 8, magic) + data):
        for read in (decode, decode_all, peek, size_and_magic):
            try:
                read(buffer)
            except RecordError:
                continue


def test_a_topic_that_is_not_utf8_is_rejected() -> None:
    with pytest.raises(RecordError, match="record at 0 has a topic that is not UTF-8"):
        decode(HELLO_RECORD.replace(b"TopicTest", b"Topic\xffest"))


def test_invalid_bytes_after_valid_records_are_rejected_with_their_position() -> None:
    with pytest.raises(RecordError, match="record at 125 is truncated: 3 bytes"):
        decode_all(HELLO_RECORD + b"abc")
