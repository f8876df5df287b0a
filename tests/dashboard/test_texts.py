import pytest

from kerolox.dashboard import texts
from kerolox.dashboard.sentences import Refused


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234567, "1,234,567"), (12.34, "12.3"), (12345.6, "12,346"), (3.0, "3")]
)
def test_numbers_are_written_for_people(value: float, text: str) -> None:
    assert texts.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**50, "1024.0 TiB")])
def test_sizes_have_the_unit_that_fits(value: int, text: str) -> None:
    assert texts.size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.25, "1.2 s"), (59, "59 s"), (125, "2 min 5 s"), (3700, "1 h 1 min"), (90000, "1 d 1 h")]
)
def test_spans_have_two_units_at_most(seconds: float, text: str) -> None:
    assert texts.span(seconds) == text


@pytest.mark.parametrize("millis", [None, 0, -1, 2**62])
def test_a_time_that_never_was_is_a_dash(millis: int | None) -> None:
    assert texts.moment(millis) == "–"


def test_what_happens_within_a_second_is_told_to_the_millisecond() -> None:
    assert texts.exact(1_700_000_000_123) == "2023-11-14 22:13:20.123 UTC"
    assert texts.exact(0) == "–"


def test_a_field_gives_back_the_time_it_was_given() -> None:
    assert texts.parse_moment(texts.field_moment(1_700_000_000_000), "begin") == 1_700_000_000_000


def test_what_is_no_time_or_no_number_is_refused() -> None:
    with pytest.raises(Refused, match=r"begin 'soon' is no time"):
        texts.parse_moment("soon", "begin")
    with pytest.raises(Refused, match="queues is 0, 1 to 9 are allowed"):
        texts.parse_count("0", "queues", 1, 9)
