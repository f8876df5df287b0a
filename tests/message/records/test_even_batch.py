"""Batches with uniform parts give the same records as the general encoder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import hosts
from kerolox.message.errors import RecordError
from kerolox.message.message import Message
from kerolox.message.records import batch, even_batch
from kerolox.message.records.batch import Part
from kerolox.message.records.record import stamp_all

V4, V6 = hosts.parse("10.0.0.1:10911"), hosts.parse("[::1]:10911")
befores = st.sampled_from([b"", b"TAGS\x01red\x02", b"UNIQ_KEY\x01not this one\x02", b"xUNIQ_KEY\x01"])
rests = st.sampled_from([b"\x02", b"\x02WAIT\x01true\x02", b"", b"\x02KEYS\x01a b\x02"])


def shared(born_host: bytes = V4) -> Message:
    return Message("orders", b"", b"", 3, 0, 0, 11, born_host, 0, V4, 2)


def part(number: int, body_size: int = 5, before: bytes = b"", rest: bytes = b"\x02", flag: int = 7) -> Part:
    return Part(bytes([number]) * body_size, b"%bUNIQ_KEY\x01%04d%b" % (before, number, rest), flag)


def both(data: bytes, message: Message) -> tuple[bytearray, list[int], list[bytes]] | None:
    """Return records, starts and unique keys, after comparing them with those of the general encoder."""
    outlined = even_batch.detect_layout(data)
    made = None if outlined is None else even_batch.to_records(data, outlined, message)
    if outlined is None or made is None:
        return None
    records, starts, keys = made
    expected, expected_starts, properties = batch.to_records(data, message)
    assert (records, tuple(starts)) == (expected, expected_starts)
    before, rest = outlined.before[2:], outlined.rest
    assert [before + key + rest for key in keys] == properties
    return records, list(starts), keys


@given(st.integers(1, 140), st.integers(0, 40), befores, rests, st.sampled_from([V4, V6]))
def test_uniform_parts_give_the_same_records(
    count: int, body_size: int, before: bytes, rest: bytes, born_host: bytes
) -> None:
    both(batch.encode(part(number, body_size, before, rest) for number in range(count)), shared(born_host))


@given(
    st.integers(2, 20),
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 80), st.integers(0, 255)), max_size=4),
    st.binary(max_size=3),
)
def test_a_changed_byte_gives_the_records_of_the_general_encoder(
    count: int, changes: list[tuple[int, int, int]], more: bytes
) -> None:
    data = bytearray(batch.encode(map(part, range(count))))
    size = len(data) // count
    for number, at, byte in changes:
        data[number % count * size + at % size] = byte

    for batched in (bytes(data), bytes(data) + more, bytes(data[: len(data) - len(more)])):
        try:
            batch.to_records(batched, shared())
        except RecordError:
            outlined = even_batch.detect_layout(batched)
            assert outlined is None or even_batch.to_records(batched, outlined, shared()) is None
        else:
            both(batched, shared())


@pytest.mark.parametrize("rest", [b"\x02WAIT\x01true\x02", b"\x02WAIT\x01true", b""])
def test_a_batch_as_java_sends_it_takes_the_fast_path(rest: bytes) -> None:
    found = both(batch.encode(part(number, rest=rest) for number in range(37)), shared())

    assert found is not None
    assert found[2] == [b"%04d" % number for number in range(37)]


@pytest.mark.parametrize(
    "odd",
    [
        part(3, body_size=4, rest=b"\x02\x02"),
        part(3, flag=8),
        part(3, rest=b"\x03"),
        Part(b"12345", b"UNIQ_KEY\x010\x0203\x02", 7),
        Part(b"12345", b"TNIQ_KEY\x010003\x02", 7),
    ],
)
def test_one_differing_part_prevents_the_fast_path(odd: Part) -> None:
    data = batch.encode([part(0), part(1), odd, part(4), part(5)])

    assert both(data, shared()) is None


@given(st.integers(1, 80), st.integers(0, 2**62), st.integers(0, 2**62), st.sampled_from([V4, V6]))
def test_records_of_equal_size_are_stamped_like_single_records(
    count: int, queue_offset: int, physical_offset: int, born_host: bytes
) -> None:
    records, starts, _ = batch.to_records(batch.encode(map(part, range(count))), shared(born_host))
    expected = bytearray(records)
    numbers = range(queue_offset, queue_offset + count)
    stamp_all(expected, starts, numbers, physical_offset, 17)

    stamp_all(records, range(0, len(records), len(records) // count), numbers, physical_offset, 17)

    assert records == expected
