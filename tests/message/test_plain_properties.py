"""PlainProperties: reading unique key, keys and tag of plain properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import property_names
from kerolox.message.plain_properties import PlainProperties
from kerolox.message.properties import find, mark, to_bytes

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

        assert found == (KEY.encode(), b"a b", b"red")


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
    ],
)
def test_unusual_properties_are_not_plain(properties: dict[str, str]) -> None:
    assert reader().read(to_bytes(properties)) is None


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({"UNIQ_KEY": KEY}, (KEY.encode(), b"", b"")),
        ({"UNIQ_KEY": KEY, "MY_KEYS": "a", "KEYSX": "b", "XTAGS": "c"}, (KEY.encode(), b"", b"")),
        ({"UNIQ_KEY": KEY, "WAIT": "falsehood"}, (KEY.encode(), b"", b"")),
        ({"own": "KEYS", "UNIQ_KEY": KEY, "other": "TAGS\x01a"}, (KEY.encode(), b"", b"")),
        ({"KEYS": "", "TAGS": "", "UNIQ_KEY": KEY}, (KEY.encode(), b"", b"")),
    ],
)
def test_only_whole_names_are_found(properties: dict[str, str], found: tuple[bytes, bytes, bytes]) -> None:
    assert reader().read(to_bytes(properties)) == found
    assert reader().read(to_bytes(properties)[:-1]) == found


def test_repeated_properties_are_not_plain() -> None:
    made = reader()
    key = mark(property_names.UNIQ_KEY) + KEY.encode() + b"\x02"

    assert made.read(key) is not None
    assert made.read(key + key) is None
    assert made.read(key + b"KEYS\x01a\x02KEYS\x01b\x02") is None


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.booleans())
def test_plain_properties_equal_those_that_find_returns(properties: list[tuple[str, str]], ends_open: bool) -> None:
    data = "".join(f"{name}\x01{value}\x02" for name, value in properties).encode()
    data = data[:-1] if ends_open else data

    found = reader().read(data)

    if found is not None:
        assert found == tuple(find(data, mark(name)) for name in ("UNIQ_KEY", "KEYS", "TAGS"))
        assert find(data, mark("WAIT")) != b"false"
        assert not find(data, mark("DELAY"))
        assert not find(data, mark("TIMER_DELAY_MS"))


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({}, (b"", b"", b"")),
        ({"KEYS": "a b", "own": "x"}, (b"", b"a b", b"")),
        ({"UNIQ_KEY": KEY, "TAGS": "red"}, (KEY.encode(), b"", b"red")),
        ({"DELAY": "3"}, None),
        ({"WAIT": "false"}, None),
    ],
)
def test_messages_of_a_batch_need_no_unique_key(
    properties: dict[str, str], found: tuple[bytes, bytes, bytes] | None
) -> None:
    assert reader().read_part(to_bytes(properties)) == found
