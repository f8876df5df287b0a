"""Sections of binary headers that are like one that came before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.errors import ProtocolError
from kerolox.wire import binary, shapes

FIELDS = {
    "a": "producers-of-orders",
    "b": "orders-of-today",
    "c": "TBW102",
    "d": "4",
    "e": "3",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
}
values = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
sections = st.dictionaries(st.sampled_from("abcdefghijklmn"), values, min_size=1)


@pytest.fixture(autouse=True)
def nothing_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_shapes", {})


def encoded(fields: dict[str, str]) -> bytes:
    return binary.encode(310, "JAVA", 493, 7, 0, None, fields)


def decoded(header: bytes) -> dict[str, str] | None:
    return binary.decode(header)[-1]


@given(sections, sections)
def test_what_was_learnt_of_one_changes_nothing_about_another(first: dict[str, str], more: dict[str, str]) -> None:
    second = {name: more.get(name, value) for name, value in first.items()}

    for fields in (first, second, first):
        assert decoded(encoded(fields)) == fields


def test_a_section_with_other_values_of_the_usual_kind_is_known() -> None:
    decoded(encoded(FIELDS | {"i": "UNIQ_KEY\x01A\x02"}))
    other = FIELDS | {"e": "11", "g": "1800000000000", "i": "UNIQ_KEY\x01é\x02"}
    header = encoded(other)

    assert shapes.known_fields(header, 21, len(header)) == other


@pytest.mark.parametrize("size", [0, -1, 1000, 2**31 - 1])
def test_a_size_that_lies_is_refused_as_in_a_section_that_is_not_known(size: int) -> None:
    header = encoded(FIELDS)
    decoded(header)
    at = header.index(b"\0\1g") + 3
    wrong = header[:at] + size.to_bytes(4, signed=True) + header[at + 4 :]

    with pytest.raises(ProtocolError):
        decoded(wrong)


def test_neither_long_fields_nor_what_varies_is_remembered() -> None:
    decoded(encoded(FIELDS | {"a": "x" * 10_000}))
    assert not shapes._shapes

    decoded(encoded(FIELDS | {"i": "x" * 1_000_000}))
    (shape,) = shapes._shapes.values()
    assert sum(map(len, shape.blocks)) + sum(map(len, shape.fields.values())) < 5_000


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_SHAPES_MAX", 10)
    for number in range(100):
        fields = FIELDS | {"a": f"producers-{number}"}
        assert decoded(encoded(fields)) == fields

    assert len(shapes._shapes) <= 10
