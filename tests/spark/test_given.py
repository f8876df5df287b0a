"""Options, one by one."""

import pytest

from kerolox.spark.given import Given, OptionError


def test_names_are_the_same_in_any_case() -> None:
    assert Given({"namesrvaddr": "a"}).text("namesrvAddr") == "a"


def test_what_is_given_under_two_names_must_say_the_same() -> None:
    assert Given({"a": "1", "b": "1"}).text("a", "b") == "1"
    with pytest.raises(OptionError, match="options a and b mean the same"):
        Given({"a": "1", "b": "2"}).text("a", "b")


@pytest.mark.parametrize(("text", "millis"), [("500", 500), ("30s", 30_000), ("15m", 900_000), ("1 h", 3_600_000)])
def test_durations_have_units(text: str, millis: int) -> None:
    assert Given({"delay": text}).millis("delay") == millis


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
def test_what_makes_no_sense_is_named_with_a_remedy(kind: str, text: str, remedy: str) -> None:
    given = Given({"option": text})

    with pytest.raises(OptionError, match=f"option option is .*{remedy}"):
        given.flag("option", default=True) if kind == "flag" else getattr(given, kind)("option")


def test_json_must_be_an_object() -> None:
    assert Given({"a": '{"b": 1}'}).json("a", "{}") == {"b": 1}
    for text in ("[1]", "{", "7"):
        with pytest.raises(OptionError, match="give an object"):
            Given({"a": text}).json("a", "an object")


def test_one_of_some_words_is_taken() -> None:
    assert Given({"a": "LATEST"}).one_of("a", "error", "latest", default="error") == "latest"
    assert Given({}).one_of("a", "error", "latest", default="error") == "error"
    with pytest.raises(OptionError, match="give one of error, latest"):
        Given({"a": "x"}).one_of("a", "error", "latest", default="error")


def test_what_nobody_asked_for_is_unknown_and_the_nearest_name_is_offered() -> None:
    given = Given({"subscibe": "orders"})
    given.text("subscribe")
    with pytest.raises(OptionError, match="option subscibe is unknown: is subscribe meant"):
        given.end()

    given = Given({"zzz": "1"})
    given.text("tags")
    given.text("sql")
    with pytest.raises(OptionError, match="option zzz is unknown: there are sql, tags"):
        given.end()


def test_options_that_contradict_each_other_are_named() -> None:
    given = Given({"tags": "a", "sql": "b"})

    with pytest.raises(OptionError, match="options tags and sql contradict each other: give one of them"):
        given.at_most_one("tags", "sql")
