"""Encoding and decoding batches."""

from __future__ import annotations

import struct
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kerolox.message import sysflag
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.message import Message
from kerolox.message.records import batch, record
from kerolox.message.records.batch import Part
from tests.message.examples import int32

HELLO = bytes.fromhex("00000025 00000000 00000000 00000000 00000005 68656C6C6F 000A 54414753015461674102")

IPV4, IPV6 = bytes(range(8)), bytes(range(20))

parts = st.lists(st.builds(Part, st.binary(max_size=40), st.binary(max_size=40), int32), max_size=5)


def test_the_layout_is_that_of_the_reference() -> None:
    assert batch.encode([Part(b"hello", b"TAGS\x01TagA\x02")]) == HELLO
    assert batch.decode(HELLO) == [Part(b"hello", b"TAGS\x01TagA\x02")]


@given(parts)
def test_a_batch_is_decoded_again(some: list[Part]) -> None:
    for kind in (bytes, bytearray, memoryview):
        assert batch.decode(kind(batch.encode(some))) == some


@given(parts, st.sampled_from((IPV4, IPV6)), st.sampled_from((IPV4, IPV6)), st.sampled_from(("t", "%DLQ%" + "t" * 200)))
def test_parts_become_the_records_of_messages(
    some: list[Part], born_host: bytes, store_host: bytes, topic: str
) -> None:
    shared = Message(topic, b"", b"of all", 3, 9, sysflag.COMPRESSED, 11, born_host, 0, store_host, 2)

    records, starts, properties = batch.to_records(batch.encode(some), shared)

    encoded = [
        record.encode(replace(shared, body=part.body, properties=part.properties, flag=part.flag)) for part in some
    ]
    assert records == b"".join(encoded)
    assert [*starts] == [*accumulate(map(len, encoded), initial=0)][:-1]
    assert properties == [part.properties for part in some]


@given(parts)
def test_has_at_most_counts_the_parts_of_a_batch(some: list[Part]) -> None:
    data = batch.encode(some)

    assert [batch.has_at_most(data, count) for count in range(7)] == [len(some) <= count for count in range(7)]


def test_magic_and_checksum_are_not_read() -> None:
    assert batch.decode(HELLO[:4] + b"abcdefgh" + HELLO[12:]) == batch.decode(HELLO)


@pytest.mark.parametrize("size", [size for size in range(1, 2 * len(HELLO)) if size != len(HELLO)])
def test_a_batch_truncated_within_a_part_is_rejected(size: int) -> None:
    with pytest.raises(RecordError, match=f"part {size // len(HELLO)} of a batch is truncated"):
        batch.decode((HELLO + HELLO)[:size])
    with pytest.raises(RecordError, match=f"part {size // len(HELLO)} of a batch is truncated"):
        batch.to_records((HELLO + HELLO)[:size], Message("t", b""))


@pytest.mark.parametrize("at", [0, 16, 25])
@pytest.mark.parametrize("number", [0, 1, 21, 36, 38, 0x7FFF, -1, -0x8000])
def test_a_wrong_length_is_rejected(at: int, number: int) -> None:
    width = ">h" if at == 25 else ">i"
    lying = bytearray(HELLO + HELLO)
    struct.pack_into(width, lying, at, number)

    with pytest.raises(RecordError, match="part 0 of a batch"):
        batch.decode(lying)
    with pytest.raises(RecordError, match="part 0 of a batch"):
        batch.to_records(bytes(lying), Message("t", b""))
    assert batch.has_at_most(bytes(lying), 4)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_record_error(data: bytes) -> None:
    for sized in (data, struct.pack(">i", len(data) + 4) + data):
        assert batch.has_at_most(sized, 1 + len(sized) // batch.PART_SIZE_MIN)
        try:
            batch.decode(sized)
        except RecordError:
            continue


def test_properties_that_are_too_long_are_rejected() -> None:
    with pytest.raises(MessageIllegal, match="properties of 32768 bytes, at most 32767 allowed"):
        batch.encode([Part(b"", b"p" * 32768)])
