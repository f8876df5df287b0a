"""Where records begin, by their sizes alone."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from kerolox.spark.fields import RECORD_SIZE_MIN, walk

# Runs of records of one size, and records that are alike by chance.
runs = st.lists(st.tuples(st.integers(RECORD_SIZE_MIN, RECORD_SIZE_MIN + 2), st.integers(1, 60)), max_size=6)


def _records(sizes: list[int]) -> bytes:
    return b"".join(struct.pack(">I", size) + bytes(size - 4) for size in sizes)


@given(runs, st.integers(0, 400), st.integers(0, 20_000), st.integers(0, RECORD_SIZE_MIN))
def test_records_are_found_whatever_their_sizes(
    some: list[tuple[int, int]], rows_max: int, stop: int, missing: int
) -> None:
    sizes = [size for size, count in some for _ in range(count)]
    data = _records(sizes)[: max(sum(sizes) - missing, 0)]
    expected, at = [], 0
    for size in sizes:
        if at >= stop or len(expected) == rows_max or at + size > len(data):
            break
        expected.append(at)
        at += size

    assert walk(data, 0, stop, rows_max) == (expected, at)


def test_it_ends_at_what_is_no_record() -> None:
    good = [RECORD_SIZE_MIN] * 100

    for size in (0, RECORD_SIZE_MIN - 1, 2**32 - 1):
        data = _records(good) + struct.pack(">I", size) + bytes(200)
        found, end = walk(data, 0, len(data), 1000)
        assert (len(found), end) == (100, 100 * RECORD_SIZE_MIN)
