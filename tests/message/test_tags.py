"""String.hashCode, compared with hashes computed by Java."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message.tags import java_hash, key_hash, tags_code

VECTORS = {
    "": 0,
    "a": 97,
    "*": 42,
    "TagA": 2598919,
    "TagB": 2598920,
    "TagC": 2598921,
    "中文": 646394,
    "%RETRY%g": 1875847589,
    "polygenelubricants": -2147483648,
}
texts = st.one_of(
    st.text(max_size=200),
    st.text("abcXYZ0189%-_ ", max_size=300),
    st.text("0123456789ABCDEF", min_size=32, max_size=32),
)


def definition(text: str) -> int:
    """Compute the hash by its definition."""
    units = text.encode("utf-16-be")
    hashed = 0
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


@pytest.mark.parametrize(("text", "hashed"), VECTORS.items())
def test_hashes_equal_those_of_java(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed
    assert tags_code(text.encode()) == hashed


@given(texts)
def test_every_hash_follows_the_definition(text: str) -> None:
    assert java_hash(text) == definition(text)
    assert tags_code(text.encode()) == definition(text)


@pytest.mark.parametrize("size", [63, 64, 65, 128, 129, 5000])
def test_long_texts_hashed_in_chunks_have_the_same_hash(size: int) -> None:
    text = ("0123456789~" * 500)[:size]

    assert java_hash(text) == definition(text)
    assert tags_code(text.encode()) == definition(text)
    assert key_hash("topic", text.encode()) == abs(definition("topic#" + text))


@given(texts, texts)
def test_a_key_hash_includes_the_topic_and_is_never_negative(topic: str, key: str) -> None:
    assert key_hash(topic, key.encode()) == abs(definition(f"{topic}#{key}"))


def test_the_key_hash_of_integer_min_value_is_zero() -> None:
    prefix = definition("t#")
    wanted = (2**31 - prefix * 31**8) % 2**32
    key = _text_with_hash(wanted, 8)

    assert definition(f"t#{key}") == -(2**31)
    assert key_hash("t", key.encode()) == 0


def _text_with_hash(hashed: int, size: int) -> str:
    """Return a text of `size` characters with that hash: its digits in base 31, shifted to printable characters."""
    moved = sum(64 * 31**power for power in range(size))
    rest = (hashed - moved) % 2**32
    digits = []
    for _ in range(size):
        rest, digit = divmod(rest, 31)
        digits.append(chr(64 + digit))
    assert rest == 0
    return "".join(reversed(digits))


def test_invalid_utf8_is_replaced_as_in_java() -> None:
    assert tags_code(b"a\xffb") == java_hash("a\ufffdb")
    assert key_hash("t", b"a\xffb") == abs(java_hash("t#a\ufffdb"))
