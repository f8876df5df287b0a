"""Many records as columns, compared with `peek_run`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kerolox.message import properties
from kerolox.message.message import Message
from kerolox.message.records.columns import Columns, peek_columns
from kerolox.message.records.summary import peek_run
from tests.message.examples import HELLO, V6, mappings, messages
from tests.message.records.test_summary import run_of


def equals_run(buffer: bytes, at: int = 0) -> bool:
    return peek_columns(buffer, at, 5000).summaries() == peek_run(buffer, at, 5000, check_crc=True)


def numbered(number: int, **more: str) -> Message:
    mapping = {"UNIQ_KEY": f"{number:032d}", "WAIT": "true", "KEYS": f"k{number:04d} all", "TAGS": f"tag-{number % 3}"}
    return replace(HELLO, queue_offset=number, properties=properties.to_bytes(mapping | more))


@given(st.lists(st.tuples(messages(), mappings, st.integers(1, 80)), max_size=4))
def test_columns_equal_a_run(made: list[tuple[Message, dict[str, str], int]]) -> None:
    repeated = [replace(message, properties=properties.to_bytes(mapping)) for message, mapping, _ in made]
    counts = [count for *_, count in made]
    many = [message for message, count in zip(repeated, counts, strict=True) for _ in range(count)]

    assert equals_run(b"before" + run_of(*many) + b"after", 6)


@given(st.lists(st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"A", b"\1", b"\2"]), max_size=9), st.integers(0, 99))
def test_each_record_is_decoded_by_its_own_properties_and_not_the_first_ones(parts: list[bytes], index: int) -> None:
    """One record of many of equal size has a property at another position, twice, without value or without end."""
    usual = numbered(0).properties
    odd = b"".join(parts)[: len(usual)]
    for text in (odd + usual[len(odd) :], usual[: len(usual) - len(odd)] + odd, odd.ljust(len(usual), b"x")):
        made = [numbered(number) for number in range(100)]
        made[index] = replace(HELLO, properties=text)

        assert equals_run(run_of(*made))


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 34, 65, 200])
def test_all_of_many_records_are_read(size: int) -> None:
    buffer = run_of(*[numbered(number) for number in range(size)])

    found = peek_columns(buffer, 0, 5000)

    assert len(found) == size
    assert found.end_offset == 5000 + len(buffer)
    assert found.unique_keys == [b"%032d" % number for number in range(size)]
    assert len(peek_columns(buffer[:-1], 0, 5000)) == size - 1
    assert len(peek_columns(buffer, 0, 5001)) == 0
    assert equals_run(buffer)


def test_columns_of_many_records_continue_where_the_first_ones_end() -> None:
    buffer = run_of(*[numbered(number) for number in range(5000)])
    found = peek_columns(buffer, 0, 5000)
    rest = peek_columns(buffer, found.end_offset - 5000, found.end_offset)

    assert 4096 <= len(found) < 5000
    assert found.summaries() + rest.summaries() == peek_run(buffer, 0, 5000, check_crc=True)


def test_tails_of_many_sizes_are_read_as_one_by_one() -> None:
    """Some have no value, a marker within another name, a name twice, zeros or long values."""
    odd = [
        b"",
        b"TAGS\1\2",
        b"MYTAGS\1x\2",
        b"TAGS\1a\2TAGS\1b",
        b"A\1\2",
        b"KEYS\1a\0b\2",
        b"A\1" + b"x" * 600 + b"\2",
    ]
    usual = [replace(numbered(n), properties=numbered(n, A="x" * (n % 50)).properties) for n in range(200)]
    for text in odd:
        for place in (b"", b"TAGS\1before\2"):
            made = [*usual[:100], replace(HELLO, properties=place + text), *usual[100:]]

            assert equals_run(run_of(*made)), text


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(["a", "bb", "b" * 600])), max_size=150))
def test_records_of_changing_sizes_are_read(shapes: list[tuple[int, int, str]]) -> None:
    made = [
        replace(numbered(number, more=text), body=b"x" * body, topic="t" * (topic + 1))
        for number, (body, topic, text) in enumerate(shapes)
    ]

    assert equals_run(run_of(*made))


def test_columns_equal_a_run_after_any_flipped_byte() -> None:
    made = [numbered(number) for number in range(70)]
    good = run_of(*made)
    size = len(good) // len(made)
    for at in range(40 * size, 41 * size):
        for bit in (0x01, 0x80):
            damaged = bytearray(good)
            damaged[at] ^= bit

            assert equals_run(bytes(damaged)), (at - 40 * size, bit)


def test_a_torn_record_among_many_is_left_out() -> None:
    made = [numbered(number) for number in range(70)]
    good = run_of(*made)
    end = len(good) // len(made) * 41

    assert len(peek_columns(good[: end - 1] + b"\0" + good[end:], 0, 5000)) == 40


def test_an_unusual_record_ends_the_columns() -> None:
    made = [numbered(number) for number in range(70)]
    made[40] = replace(made[40], born_host=V6)

    assert len(peek_columns(run_of(*made), 0, 5000)) == 40


def test_summaries_are_converted_to_columns_and_back() -> None:
    records = peek_run(run_of(*[numbered(number) for number in range(5)]), 0, 5000)

    assert Columns.of(records).summaries() == records
    assert Columns.of([]).summaries() == []
