"""Properties as columns: equal to the parser, with and without the fast paths."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerolox.message.properties import parse
from kerolox.spark.arrow import properties
from kerolox.spark.arrow.properties import property_columns, property_maps

COLUMNS = {"msgId": "UNIQ_KEY", "keys": "KEYS", "tags": "TAGS"}
NAMES = st.sampled_from([b"UNIQ_KEY", b"KEYS", b"TAGS", b"KEYSX", b"WAIT", b"t", b"", "ü".encode()])
ENDS = st.sampled_from([b"\2", b"", b"\2\2", b"\2KEYS\1x", b"KE", b"YS\1"])
ODD = st.lists(st.sampled_from([b"KEYS", b"TAGS\1", b"\1", b"\2", b"v", b"\xff", b""]), max_size=6).map(b"".join)


def values(size: int | None) -> st.SearchStrategy[bytes]:
    if size is None:
        return st.text("ab\1ü", max_size=4).map(str.encode)
    return st.text("ab\1\2", min_size=size, max_size=size).map(str.encode)


@st.composite
def rows_with_same_names(draw: st.DrawFn) -> list[bytes]:
    """Rows with mostly the same names in the same order; values of equal or of any size."""
    marks = [
        name + between
        for name, between in draw(st.lists(st.tuples(NAMES, st.sampled_from([b"\1", b"\1", b""])), max_size=4))
    ]
    sizes = [draw(st.one_of(st.none(), st.integers(0, 3))) for _ in marks]
    end = draw(ENDS)
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        row = b"\2".join(mark + draw(values(size)) for mark, size in zip(marks, sizes, strict=True)) + end
        rows.append(draw(ODD) if draw(st.integers(0, 9)) == 9 else row)
    return rows


@settings(max_examples=150)
@given(rows_with_same_names(), st.binary(max_size=3))
def test_columns_and_maps_equal_the_parser(rows: list[bytes], gap: bytes) -> None:
    columns, maps = columns_and_maps(rows, gap)

    parsed = [parse(row) for row in rows]
    for column, name in COLUMNS.items():
        assert columns[column].to_pylist() == [each.get(name) for each in parsed]
        assert columns[column].type == pa.string()
    assert [dict(each) for each in maps.to_pylist()] == parsed


@pytest.mark.parametrize(
    "rows",
    [
        [b"UNIQ_KEY\1%04d\2KEYS\1k\2" % number for number in range(20)],
        [b"UNIQ_KEY\1%d\2KEYS\1k\2WAIT\1true" % 5**number for number in range(20)],
        ["KEYS\1é\2TAGS\1".encode() + b"x" * number + b"\2" for number in range(1, 20)],
    ],
)
def test_rows_with_the_same_names_use_the_fast_path(rows: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(properties, "_segments")
    monkeypatch.delattr(properties, "parse")

    columns, maps = columns_and_maps(rows)

    assert columns["keys"].to_pylist() == [parse(row)["KEYS"] for row in rows]
    assert [dict(each) for each in maps.to_pylist()] == [parse(row) for row in rows]


def test_a_name_does_not_match_across_two_rows() -> None:
    columns, _ = columns_and_maps([b"a\1b\2KEYS\1v", b"a\1bb\2KE", b"YS\1vvv\2KEYS\1v"])

    assert columns["keys"].to_pylist() == ["v", None, "v"]


def columns_and_maps(rows: list[bytes], gap: bytes = b"") -> tuple[dict[str, pa.StringArray], pa.MapArray]:
    """Return columns and maps of rows in a buffer with a gap before each row and after the last one."""
    data = pa.py_buffer(b"".join(gap + row for row in rows) + gap)
    ends = np.cumsum([len(gap) + len(row) for row in rows], dtype=np.int64)
    starts = ends - np.array([len(row) for row in rows])
    return property_columns(data, starts, ends, COLUMNS), property_maps(data, starts, ends)
