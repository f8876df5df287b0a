"""Times as Java's tools have them."""

from datetime import datetime

import click
import pytest

from kerolox.cli.admin.errors import Misused
from kerolox.cli.admin.times import Seconds, digits, millis_text, parse_millis, seconds_text

MOMENT = datetime(2024, 2, 29, 23, 59, 58, 7000)
MILLIS = round(MOMENT.timestamp() * 1000)


def test_times_are_written_as_java_does() -> None:
    assert seconds_text(MILLIS) == "2024-02-29 23:59:58"
    assert millis_text(MILLIS) == "2024-02-29 23:59:58,007"
    assert digits(MILLIS) == "20240229235958007"


@pytest.mark.parametrize("text", [str(MILLIS), "2024-02-29#23:59:58:007", "2024-02-29T23:59:58.007"])
def test_times_are_read_as_numbers_as_javas_and_as_iso(text: str) -> None:
    assert parse_millis(text, "--timestamp") == MILLIS


def test_what_is_no_time_is_refused_with_what_would_be_one() -> None:
    for text in ("noon", "9" * 20, "0001-01-01T00:00:00"):
        with pytest.raises(Misused, match=f"'{text}' is no time: give milliseconds, "):
            parse_millis(text, "--timestamp")


@pytest.mark.parametrize("millis", [(1 << 63) - 1, -(1 << 63)])
def test_a_time_that_no_calendar_has_is_a_number(millis: int) -> None:
    """Producers say when a message was born, and any number will do."""
    assert millis_text(millis) == f"{millis // 1000},{millis % 1000:03d}"
    assert digits(millis) == f"{millis // 1000}{millis % 1000:03d}"


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_seconds_are_a_number_that_comes_to_an_end(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a valid number of seconds|is not in the range"):
        Seconds(min=0).convert(text, None, None)
