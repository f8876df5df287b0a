"""Parsing and encoding properties, and finding single ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerolox.message import properties, property_names
from kerolox.message.errors import MessageIllegal
from kerolox.message.properties import by_mark, find, join, mark, parse, put, remove, replace, to_bytes
from tests.message.examples import mappings

# Arbitrary data of few characters, so that names and separators occur in all combinations.
anything = st.text("\x01\x02abé", max_size=30).map(str.encode)


def test_each_property_ends_with_a_separator() -> None:
    assert to_bytes({"TAGS": "TagA", "WAIT": "true"}) == b"TAGS\x01TagA\x02WAIT\x01true\x02"
    assert to_bytes({}) == b""


@given(mappings)
def test_encoded_properties_are_parsed_again(mapping: dict[str, str]) -> None:
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
def test_malformed_properties_are_left_out(data: bytes, mapping: dict[str, str]) -> None:
    assert parse(data) == mapping


def test_text_and_bytes_are_parsed_alike() -> None:
    assert parse("ключ\x01中文\x02") == parse("ключ\x01中文\x02".encode()) == {"ключ": "中文"}


@pytest.mark.parametrize("mapping", [{"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x02c\x01d"}, {"a": "\ud800"}])
def test_properties_that_would_be_parsed_differently_are_rejected(mapping: dict[str, str]) -> None:
    with pytest.raises(MessageIllegal):
        to_bytes(mapping)


def test_a_value_may_contain_the_name_value_separator() -> None:
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
def test_a_name_counts_only_at_the_start_of_a_property(data: bytes, value: bytes) -> None:
    assert find(data, mark("a")) == value == parse(data).get("a", "").encode()


def test_repeated_false_matches_take_linear_time() -> None:
    data = b"xa\x01" * 10_000

    assert find(data, mark("a")) == b""


@given(anything, mappings)
def test_joined_properties_take_precedence(data: bytes, mapping: dict[str, str]) -> None:
    assert parse(join(data, to_bytes(mapping))) == parse(data) | mapping


@given(anything, st.sampled_from(["a", "b", "ab"]))
def test_removing_one_property_keeps_the_others(data: bytes, name: str) -> None:
    rest = parse(data)
    rest.pop(name, None)

    assert parse(remove(data, mark(name))) == rest


def test_removing_keeps_the_bytes_of_the_others() -> None:
    assert remove(b"a\x01b\x02c\x01d\x02", mark("a")) == b"c\x01d\x02"
    assert remove(b"a\x01b\x02c\x01d", mark("c")) == b"a\x01b"
    assert remove(b"a\x01b\x02ca\x01d\x02", mark("b")) == b"a\x01b\x02ca\x01d\x02"


def test_a_replaced_property_keeps_its_position() -> None:
    assert replace(b"a\x01b\x02c\x01d\x02", mark("a"), b"e") == b"a\x01e\x02c\x01d\x02"
    assert replace(b"a\x01b\x02c\x01d", mark("c"), b"") == b"a\x01b\x02c\x01"
    assert replace(b"ca\x01b\x02", mark("a"), b"e") == b"ca\x01b\x02"


def test_reserved_names_are_those_that_java_rejects() -> None:
    assert {property_names.KEYS, property_names.CRC32, "1ST_POP_TIME", "__BORNHOST"} <= property_names.RESERVED
    assert (
        not {property_names.SHARDING_KEY, property_names.TRANSACTION_ID, property_names.INNER_NUM}
        & property_names.RESERVED
    )


def test_every_name_is_declared_once() -> None:
    declared = [value for name, value in vars(property_names).items() if isinstance(value, str) and name.isupper()]

    assert len(declared) == len(set(declared))
    assert set(declared) > property_names.RESERVED
    assert properties.parse(f"{property_names.TAGS}\x01a") == {"TAGS": "a"}


def test_put_sets_a_value_whether_or_not_there_was_one() -> None:
    delay = mark("DELAY")
    assert put(b"", delay, b"3") == b"DELAY\x013\x02"
    assert put(b"KEYS\x01k", delay, b"3") == b"KEYS\x01k\x02DELAY\x013\x02"
    assert put(b"DELAY\x011\x02KEYS\x01k\x02DELAY\x012\x02", delay, b"3") == b"KEYS\x01k\x02DELAY\x013\x02"


@given(anything, st.sampled_from(["abcd", "abcdef", "abcé", "TAGS"]))
def test_finding_by_initials_agrees_with_find(data: bytes, name: str) -> None:
    data = data.replace(b"a", b"abcd").replace(b"b", b"TAGS")

    assert properties.find_by_initials(properties.by_initials(data), data, properties.mark(name)) == properties.find(
        data, properties.mark(name)
    )
