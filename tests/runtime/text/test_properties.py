"""Java's .properties files, as java.util.Properties reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.runtime.text.properties import format_lines, parse


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("key=value", {"key": "value"}),
        ("key = value", {"key": "value"}),
        ("key:value", {"key": "value"}),
        ("key : value", {"key": "value"}),
        ("key value", {"key": "value"}),
        ("key\t\f value", {"key": "value"}),
        ("  key=value", {"key": "value"}),
        ("key", {"key": ""}),
        ("key=", {"key": ""}),
        ("=value", {"": "value"}),
        ("key==value", {"key": "=value"}),
        ("key = : value", {"key": ": value"}),
        ("key=value  ", {"key": "value  "}),
        ("key=a=b:c d", {"key": "a=b:c d"}),
    ],
)
def test_key_and_value_are_separated_by_equals_colon_or_space(text: str, properties: dict[str, str]) -> None:
    assert parse(text) == properties


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends_are_accepted(end: str) -> None:
    assert parse(f"a=1{end}{end}b=2{end}") == {"a": "1", "b": "2"}


def test_comments_and_blank_lines_are_skipped() -> None:
    assert parse("# a=1\n  ! b=2\n\n \t\nc=3 # not a comment\n") == {"c": "3 # not a comment"}


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("fruits=apple, \\\n      banana, \\\n      pear", {"fruits": "apple, banana, pear"}),
        ("key=a\\\r\nb", {"key": "ab"}),
        ("ke\\\n  y=value", {"key": "value"}),
        ("key=a\\\n# b", {"key": "a# b"}),
        ("key=a\\\n\nnext=1", {"key": "a", "next": "1"}),
        ("key=a\\\\\nnext=1", {"key": "a\\", "next": "1"}),
        ("key=a\\\\\\\n  b", {"key": "a\\b"}),
        ("key=a\\", {"key": "a"}),
    ],
)
def test_an_odd_number_of_backslashes_continues_a_line(text: str, properties: dict[str, str]) -> None:
    assert parse(text) == properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        (r"path=C:\\data", {"path": r"C:\data"}),
        (r"a\=b\:c\ d=value", {"a=b:c d": "value"}),
        (r"a\\=value", {"a\\": "value"}),
        (r"\#key=value", {"#key": "value"}),
        (r"key=a\tb\nc\rd\fe", {"key": "a\tb\nc\rd\fe"}),
        (r"key=\ padded", {"key": " padded"}),
        (r"key=\q\z", {"key": "qz"}),
        (r"key=\u4f60\u597D", {"key": "你好"}),
        (r"key=\uD83D\uDE80", {"key": "🚀"}),
        ("key=你好🚀", {"key": "你好🚀"}),
    ],
)
def test_escapes_are_decoded(text: str, properties: dict[str, str]) -> None:
    assert parse(text) == properties


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert parse(r"key=a\uD83Db") == {"key": "a�b"}


def test_the_last_of_two_values_wins() -> None:
    assert parse("key=first\nkey=second") == {"key": "second"}


def test_special_characters_are_escaped() -> None:
    assert format_lines({"a b": " c=d", "e": "f\\g\nh"}) == "a\\ b=\\ c=d\ne=f\\\\g\\nh\n"


@given(st.dictionaries(st.text(), st.text()))
def test_properties_survive_a_round_trip(properties: dict[str, str]) -> None:
    assert parse(format_lines(properties)) == properties


@given(st.text(alphabet=" \t\f\\=:#!\nau0"))
def test_any_text_can_be_parsed(text: str) -> None:
    properties = parse(text)

    assert parse(format_lines(properties)) == properties
