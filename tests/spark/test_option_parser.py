"""Parsing of Spark options and of TOML sections."""

import pytest

from kerolox.spark.option_parser import OptionError, OptionParser, TomlSection


def test_option_names_are_case_insensitive() -> None:
    assert OptionParser({"namesrvaddr": "a"}).text("namesrvAddr") == "a"


def test_two_names_of_one_option_must_have_the_same_value() -> None:
    assert OptionParser({"a": "1", "b": "1"}).text("a", "b") == "1"
    with pytest.raises(OptionError, match="options a and b are synonyms with different values"):
        OptionParser({"a": "1", "b": "2"}).text("a", "b")


@pytest.mark.parametrize(("text", "millis"), [("500", 500), ("30s", 30_000), ("15m", 900_000), ("1 h", 3_600_000)])
def test_durations_have_units(text: str, millis: int) -> None:
    assert OptionParser({"delay": text}).millis("delay") == millis


@pytest.mark.parametrize(
    ("kind", "text", "remedy"),
    [
        ("flag", "yes", "give true or false"),
        ("count", "0", "give a whole number of at least 1"),
        ("count", "many", "give a whole number of at least 1"),
        ("millis", "5 parsecs", "give milliseconds, or a duration"),
        ("millis", "soon", "give milliseconds, or a duration"),
        ("text", "  ", "give it a value, or leave it out"),
    ],
)
def test_an_invalid_value_is_reported_with_a_remedy(kind: str, text: str, remedy: str) -> None:
    parser = OptionParser({"option": text})

    with pytest.raises(OptionError, match=f"option option is .*{remedy}"):
        parser.flag("option", default=True) if kind == "flag" else getattr(parser, kind)("option")


def test_json_must_be_an_object() -> None:
    assert OptionParser({"a": '{"b": 1}'}).json("a", "{}") == {"b": 1}
    for text in ("[1]", "{", "7"):
        with pytest.raises(OptionError, match="give an object"):
            OptionParser({"a": text}).json("a", "an object")


def test_one_of_accepts_the_allowed_words_in_any_case() -> None:
    assert OptionParser({"a": "LATEST"}).one_of("a", "error", "latest", default="error") == "latest"
    assert OptionParser({}).one_of("a", "error", "latest", default="error") == "error"
    with pytest.raises(OptionError, match="give one of error, latest"):
        OptionParser({"a": "x"}).one_of("a", "error", "latest", default="error")


def test_an_unknown_option_is_reported_with_the_nearest_name() -> None:
    parser = OptionParser({"subscibe": "orders"})
    parser.text("subscribe")
    with pytest.raises(OptionError, match="option subscibe is unknown: is subscribe meant"):
        parser.end()

    parser = OptionParser({"zzz": "1"})
    parser.text("tags")
    parser.text("sql")
    with pytest.raises(OptionError, match="option zzz is unknown: there are sql, tags"):
        parser.end()


def test_contradicting_options_are_reported() -> None:
    parser = OptionParser({"tags": "a", "sql": "b"})

    with pytest.raises(OptionError, match="options tags and sql contradict each other: give one of them"):
        parser.at_most_one("tags", "sql")


def test_toml_accepts_one_string_for_a_list_and_joins_nested_sections_with_dots() -> None:
    section = TomlSection({"topics": "orders", "options": {"a": {"b": {"c": 1}}, "d": True}}, "the file")

    assert section.strings("topics") == ["orders"]
    assert section.spark_options("options") == {"a.b.c": "1", "d": "true"}
    assert (section.text("name"), section.flag("stream", default=True)) == (None, True)
    assert section.section("watermark") is None
    section.end()


def test_an_unknown_toml_key_is_reported_with_its_section() -> None:
    section = TomlSection({"zzz": 1}, "source.orders", "source.orders.")
    section.text("format")

    with pytest.raises(OptionError, match=r"source.orders.zzz is unknown in source.orders: there are format"):
        section.end()
