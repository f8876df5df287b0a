"""Properties: parsed, written, and found without parsing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerolox.message import names, properties
from kerolox.message.errors import MessageIllegal
from kerolox.message.properties import by_mark, find, join, mark, parse, put, remove, replace, to_bytes
from tests.message.examples import mappings

# Whatever comes, made of few characters so that names and separators meet in every way.
anything = st.text("\x01\x02abé", max_size=30).map(str.encode)


def test_each_property_ends_with_its_separator() -> None:
    assert to_bytes({"TAGS": "TagA", "WAIT": "true"}) == b"TAGS\x01TagA\x02WAIT\x01true\x02"
    assert to_bytes({}) == b""


@given(mappings)
def test_what_is_written_is_read_again(mapping: dict[str, str]) -> None:
    assert parse(to_bytes(mapping)) == mapping
    assert list(parse(to_bytes(mapping))) == list(mapping)


@pytest.mark.parametrize(
    ("data", "mapping"),
    [
        (b"", {}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01\x02c\x01d", {"c": "d"}),
        (b"\x01b\x02c\x01d", {"c": "d"}),
        (b"ab\x02c\x01d", {"c": "d"}),
        (b"\x02\x02c\x01d\x02\x02", {"c": "d"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"a\x01b\x02a\x01c\x02", {"a": "c"}),
        (b"a\x01b\x02a\x01\x02", {"a": "b"}),
        (b"a\x01\xff\x02", {"a": "\ufffd"}),
    ],
)
def test_what_is_no_property_is_left_out(data: bytes, mapping: dict[str, str]) -> None:
    assert parse(data) == mapping


def test_text_and_bytes_are_read_alike() -> None:
    assert parse("ключ\x01中文\x02") == parse("ключ\x01中文\x02".encode()) == {"ключ": "中文"}


@pytest.mark.parametrize("mapping", [{"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x02c\x01d"}, {"a": "\ud800"}])
def test_what_would_be_read_as_something_else_is_not_written(mapping: dict[str, str]) -> None:
    with pytest.raises(MessageIllegal):
        to_bytes(mapping)


def test_a_value_may_hold_what_parts_name_and_value() -> None:
    assert parse(to_bytes({"a": "b\x01c"})) == {"a": "b\x01c"}


@settings(max_examples=1000)
@given(anything, st.sampled_from(["a", "b", "ab", "é", "aa"]))
def test_finding_one_agrees_with_parsing_all(data: bytes, name: str) -> None:
    assert find(data, mark(name)).decode() == parse(data).get(name, "")
    assert by_mark(data).get(mark(name), b"") == find(data, mark(name))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"a\x01b", b"b"),
        (b"a\x01ba\x01c", b"ba\x01c"),
        (b"ba\x01b", b""),
        (b"a\x01b\x02ba\x01c", b"b"),
        (b"x\x01y\x02a\x01b\x02c\x01da\x01e", b"b"),
        (b"a\x01b\x02a\x01", b"b"),
        (b"a\x01\x02a\x01\x02", b""),
    ],
)
def test_a_name_counts_only_where_one_begins(data: bytes, value: bytes) -> None:
    assert find(data, mark("a")) == value == parse(data).get("a", "").encode()


def test_names_that_are_none_cost_no_more_than_their_length() -> None:
    data = b"xa\x01" * 10_000

    assert find(data, mark("a")) == b""


@given(anything, mappings)
def test_what_is_joined_wins(data: bytes, mapping: dict[str, str]) -> None:
    assert parse(join(data, to_bytes(mapping))) == parse(data) | mapping


@given(anything, st.sampled_from(["a", "b", "ab"]))
def test_what_is_removed_is_gone_and_the_rest_is_not(data: bytes, name: str) -> None:
    rest = parse(data)
    rest.pop(name, None)

    assert parse(remove(data, mark(name))) == rest


def test_the_bytes_of_what_stays_stay() -> None:
    assert remove(b"a\x01b\x02c\x01d\x02", mark("a")) == b"c\x01d\x02"
    assert remove(b"a\x01b\x02c\x01d", mark("c")) == b"a\x01b"
    assert remove(b"a\x01b\x02ca\x01d\x02", mark("b")) == b"a\x01b\x02ca\x01d\x02"


def test_what_is_replaced_stays_in_its_place() -> None:
    assert replace(b"a\x01b\x02c\x01d\x02", mark("a"), b"e") == b"a\x01e\x02c\x01d\x02"
    assert replace(b"a\x01b\x02c\x01d", mark("c"), b"") == b"a\x01b\x02c\x01"
    assert replace(b"ca\x01b\x02", mark("a"), b"e") == b"ca\x01b\x02"


def test_reserved_are_the_names_that_a_user_may_not_set() -> None:
    assert {names.KEYS, names.CRC32, "1ST_POP_TIME", "__BORNHOST"} <= names.RESERVED
    assert not {names.SHARDING_KEY, names.TRANSACTION_ID, names.INNER_NUM} & names.RESERVED


def test_every_name_is_declared_once() -> None:
    declared = [value for name, value in vars(names).items() if isinstance(value, str) and name.isupper()]

    assert len(declared) == len(set(declared))
    assert set(declared) > names.RESERVED
    assert properties.parse(f"{names.TAGS}\x01a") == {"TAGS": "a"}


def test_a_value_is_put_whether_or_not_there_was_one() -> None:
    delay = mark("DELAY")
    assert put(b"", delay, b"3") == b"DELAY\x013\x02"
    assert put(b"KEYS\x01k", delay, b"3") == b"KEYS\x01k\x02DELAY\x013\x02"
    assert put(b"DELAY\x011\x02KEYS\x01k\x02DELAY\x012\x02", delay, b"3") == b"KEYS\x01k\x02DELAY\x013\x02"


@given(anything, st.sampled_from(["abcd", "abcdef", "abcé", "TAGS"]))
def test_an_outline_finds_what_looking_for_it_does(data: bytes, name: str) -> None:
    data = data.replace(b"a", b"abcd").replace(b"b", b"TAGS")

    assert properties.pick(properties.outline(data), data, properties.mark(name)) == properties.find(
        data, properties.mark(name)
    )
