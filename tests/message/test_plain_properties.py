"""PlainProperties: reading plain properties with a cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import property_names
from kerolox.message.plain_properties import PlainProperties
from kerolox.message.properties import find, mark, to_bytes
from kerolox.message.tags import tags_code

UNUSUAL = (mark("DELAY"), b"TIMER_DEL", mark("TRAN_MSG"))
KEY = "7F00000151F1DABDB9114D35C0770000"
NAMES = st.sampled_from(
    ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "DELAY", "TIMER_DELAY_MS", "XKEYS", "KEYSX", "A", "UNIQ", ""]
)
VALUES = st.sampled_from(["", "a", "false", "true", "k1 k2", "UNIQ_KEY", "KEYS\x01x", "TAGS\x01", "\x01"])


def reader() -> PlainProperties:
    return PlainProperties(UNUSUAL)


def test_unique_key_keys_and_tag_are_found_in_any_order() -> None:
    made = reader()
    for properties in (
        {"UNIQ_KEY": KEY, "WAIT": "true", "TAGS": "red", "KEYS": "a b"},
        {"KEYS": "a b", "own": "value", "TAGS": "red", "UNIQ_KEY": KEY},
    ):
        found = made.read(to_bytes(properties))

        assert found is not None
        unique_key, keys, traits = found
        assert (unique_key, keys, traits.tag, traits.tags_code) == (KEY.encode(), b"a b", b"red", tags_code(b"red"))


def test_properties_that_differ_only_in_keys_are_parsed_once() -> None:
    made = reader()
    first = made.read(to_bytes({"UNIQ_KEY": KEY, "KEYS": "1", "TAGS": "red"}))
    second = made.read(to_bytes({"UNIQ_KEY": KEY[:-1] + "1", "KEYS": "2", "TAGS": "red"}))

    assert first is not None
    assert second is not None
    assert first[2] is second[2]


@pytest.mark.parametrize(
    "properties",
    [
        to_bytes({"UNIQ_KEY": KEY, "WAIT": "true"}),
        b"UNIQ_KEY\x01" + KEY[:-9].encode() + b"\x02KEYS\x01abc\x02WAIT\x01true\x02",
        b"UNIQ_KEY\x01" + KEY[:-8].encode() + b"\x02DELAY\x013\x02WAIT\x01true\x02",
        to_bytes({"UNIQ_KEY": KEY + "0", "WAIT": "true"}),
        to_bytes({"UNIQ_KEY": "", "WAIT": "true"}),
        b"UNIQ_KEY\x01" + KEY.encode(),
        to_bytes({"KEYS": KEY + "1234", "WAIT": "true"}),
    ],
)
def test_the_cache_does_not_change_the_result(properties: bytes) -> None:
    experienced = reader()
    for number in range(3):
        experienced.read(to_bytes({"UNIQ_KEY": f"{KEY[:-1]}{number}", "WAIT": "true"}))

    assert experienced.read(properties) == reader().read(properties)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"TAGS": "red"},
        {"UNIQ_KEY": ""},
        {"UNIQ_KEY": KEY, "DELAY": "3"},
        {"UNIQ_KEY": KEY, "TIMER_DELIVER_MS": "3"},
        {"UNIQ_KEY": KEY, "TRAN_MSG": "true"},
        {"UNIQ_KEY": KEY, "WAIT": "false"},
        {"MY_UNIQ_KEY": KEY},
        {"UNIQ_KEY": KEY, "MY_KEYS": "a"},
    ],
)
def test_unusual_properties_are_not_plain(properties: dict[str, str]) -> None:
    assert reader().read(to_bytes(properties)) is None


def test_repeated_properties_are_not_plain() -> None:
    made = reader()
    key = mark(property_names.UNIQ_KEY) + KEY.encode() + b"\x02"

    assert made.read(key) is not None
    assert made.read(key + key) is None
    assert made.read(key + b"KEYS\x01a\x02KEYS\x01b\x02") is None


def test_the_cache_is_bounded() -> None:
    made = reader()
    for number in range(3000):
        assert made.read(to_bytes({"UNIQ_KEY": KEY, "own": str(number)})) is not None
    long = made.read(to_bytes({"UNIQ_KEY": KEY, "own": "x" * 10_000}))

    assert long is not None
    assert len(made._known) <= 1024
    assert max(map(len, made._known)) <= 512


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.booleans())
def test_plain_properties_equal_those_that_find_returns(properties: list[tuple[str, str]], ends_open: bool) -> None:
    data = "".join(f"{name}\x01{value}\x02" for name, value in properties).encode()
    data = data[:-1] if ends_open else data

    found = reader().read(data)

    if found is not None:
        unique_key, keys, traits = found
        assert (unique_key, keys, traits.tag) == tuple(find(data, mark(name)) for name in ("UNIQ_KEY", "KEYS", "TAGS"))
        assert find(data, mark("WAIT")) != b"false"
        assert not find(data, mark("DELAY"))
        assert not find(data, mark("TIMER_DELAY_MS"))
