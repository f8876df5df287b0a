"""Columns copied from a buffer equal Python slices of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import hosts
from kerolox.spark.arrow.record_heads import constant_stride, gather
from kerolox.spark.arrow.varlen import host_texts, slices

BUFFER = bytes(number * number % 251 for number in range(20_000))


@given(
    sizes=st.lists(st.sampled_from((0, 1, 40, 41, 100, 300)), min_size=1, max_size=40) | st.integers(1, 300),
    gap=st.integers(0, 60),
    count=st.integers(1, 40),
    first=st.integers(0, 100),
    moved=st.none() | st.integers(0, 39),
)
def test_slices_equal_python_slices(
    sizes: list[int] | int, gap: int, count: int, first: int, moved: int | None
) -> None:
    """Pieces of equal size and spacing, of equal size, or of any; one of them perhaps shifted by a byte."""
    lengths = np.array([sizes] * count if isinstance(sizes, int) else sizes, np.int64)
    starts = first + np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths + gap)[:-1]))
    if moved is not None:
        starts[moved % len(starts) :] += 1
    ends = starts + lengths
    expected = [BUFFER[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    assert slices(pa.py_buffer(BUFFER), starts, ends).to_pylist() == expected
    if len(set(lengths.tolist())) == 1 and lengths[0]:
        assert gather(BUFFER, int(lengths[0]), starts).tobytes() == b"".join(expected)


def test_constant_stride_compares_all_starts() -> None:
    even = np.arange(5, 1000, 7)
    swapped = even.copy()
    swapped[[20, 21]] = swapped[[21, 20]]

    assert constant_stride(even) == 7
    assert constant_stride(swapped) is None
    assert constant_stride(even[:4]) is None
    assert constant_stride(np.full(30, 8)) is None


@pytest.mark.parametrize("size", [8, 20])
@given(runs=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60)), min_size=1, max_size=8))
def test_hosts_are_formatted_in_any_order(size: int, runs: list[tuple[int, int]]) -> None:
    known = [bytes([number]) + bytes(size - 2) + bytes([number]) for number in range(4)]
    packed = [known[number] for number, count in runs for _ in range(count)]

    found = host_texts(np.frombuffer(b"".join(packed), f"V{size}"))

    assert found.to_pylist() == [hosts.to_text(host) for host in packed]
