"""Starts of records by their sizes, and heads of many records."""

from __future__ import annotations

import struct
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kerolox.message.records.layout import RECORD_SIZE_MIN
from kerolox.message.records.record import encode
from kerolox.spark.arrow.record_heads import NotARecord, RecordHeads, read_heads, walk
from tests.message.examples import HELLO

# Runs of records of one size, and records that look the same by chance.
runs = st.lists(st.tuples(st.integers(RECORD_SIZE_MIN, RECORD_SIZE_MIN + 2), st.integers(1, 60)), max_size=6)


def _records(sizes: list[int]) -> bytes:
    return b"".join(struct.pack(">I", size) + bytes(size - 4) for size in sizes)


@given(runs, st.integers(0, 400), st.integers(0, 20_000), st.integers(0, RECORD_SIZE_MIN))
def test_walk_finds_records_of_any_size(some: list[tuple[int, int]], rows_max: int, stop: int, missing: int) -> None:
    sizes = [size for size, count in some for _ in range(count)]
    data = _records(sizes)[: max(sum(sizes) - missing, 0)]
    expected: list[int] = []
    at = 0
    for size in sizes:
        if at >= stop or len(expected) == rows_max or at + size > len(data):
            break
        expected.append(at)
        at += size

    found, end = walk(data, 0, stop, rows_max)

    assert (found.tolist(), end) == (expected, at)


def test_walk_stops_at_an_invalid_record() -> None:
    good = [RECORD_SIZE_MIN] * 100

    for size in (0, RECORD_SIZE_MIN - 1, 2**32 - 1):
        data = _records(good) + struct.pack(">I", size) + bytes(200)
        found, end = walk(data, 0, len(data), 1000)
        assert (len(found), end) == (100, 100 * RECORD_SIZE_MIN)


TOPICS = st.sampled_from(["TopicTest"] * 9 + ["TopicTes", "TopicTesu", "", "%RETRY%" + "g" * 150])


@given(
    st.lists(st.tuples(TOPICS, st.binary(max_size=4), st.binary(max_size=4)), min_size=1, max_size=6),
    st.one_of(st.none(), st.tuples(st.integers(4, 500), st.integers(0, 255))),
)
def test_the_fast_path_for_one_topic_returns_the_same_heads(
    some: list[tuple[str, bytes, bytes]], damage: tuple[int, int] | None
) -> None:
    data = bytearray()
    for topic, body, properties in some:
        data += encode(replace(HELLO, topic=topic, body=body, properties=properties))
    starts, end = walk(bytes(data), 0, len(data), 100)
    ends = np.append(starts[1:], end)
    if damage is not None and damage[0] < len(data):
        data[damage[0]] = damage[1]

    found = heads_or_error(bytes(data), starts, ends)
    with patch("kerolox.spark.arrow.record_heads._heads_of_one_topic", return_value=None):
        expected = heads_or_error(bytes(data), starts, ends)

    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
        return
    for name in ("body_starts", "body_ends", "topic_starts", "topic_ends", "ends"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    topics = {bytes(data[start:end]) for start, end in zip(expected.topic_starts, expected.topic_ends, strict=True)}
    assert found.topic is None or topics == {found.topic}


def heads_or_error(data: bytes, starts: np.ndarray, ends: np.ndarray) -> RecordHeads | str:
    """Return the heads, or the error of the first invalid record with its index."""
    try:
        return read_heads(data, starts, ends, 0)
    except NotARecord as error:
        return f"{error.number}: {error}"
