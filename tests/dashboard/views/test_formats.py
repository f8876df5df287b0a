import pytest

from kerolox.dashboard.http.errors import RequestRefused
from kerolox.dashboard.views import formats


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234567, "1,234,567"), (12.34, "12.3"), (12345.6, "12,346"), (3.0, "3")]
)
def test_numbers_are_formatted(value: float, text: str) -> None:
    assert formats.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**50, "1024.0 TiB")])
def test_sizes_have_a_fitting_unit(value: int, text: str) -> None:
    assert formats.size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.25, "1.2 s"), (59, "59 s"), (125, "2 min 5 s"), (3700, "1 h 1 min"), (90000, "1 d 1 h")]
)
def test_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    assert formats.duration(seconds) == text


@pytest.mark.parametrize("millis", [None, 0, -1, 2**62])
def test_an_invalid_time_is_a_dash(millis: int | None) -> None:
    assert formats.date_time(millis) == "–"


def test_exact_times_have_milliseconds() -> None:
    assert formats.exact_time(1_700_000_000_123) == "2023-11-14 22:13:20.123 UTC"
    assert formats.exact_time(0) == "–"


def test_a_time_survives_the_round_trip_through_a_form() -> None:
    assert formats.parse_time(formats.input_time(1_700_000_000_000), "begin") == 1_700_000_000_000


def test_invalid_times_and_numbers_are_refused() -> None:
    with pytest.raises(RequestRefused, match=r"begin 'soon' is not a time"):
        formats.parse_time("soon", "begin")
    with pytest.raises(RequestRefused, match="queues is 0, 1 to 9 are allowed"):
        formats.parse_count("0", "queues", 1, 9)
