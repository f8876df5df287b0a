"""Times as Java's tools format and parse them."""

from datetime import datetime

import click
import pytest

from kerolox.cli.admin.errors import InvalidUsage
from kerolox.cli.admin.java_times import Seconds, compact_text, millis_text, parse_millis, seconds_text

MOMENT = datetime(2024, 2, 29, 23, 59, 58, 7000)
MILLIS = round(MOMENT.timestamp() * 1000)


def test_times_are_formatted_as_in_java() -> None:
    assert seconds_text(MILLIS) == "2024-02-29 23:59:58"
    assert millis_text(MILLIS) == "2024-02-29 23:59:58,007"
    assert compact_text(MILLIS) == "20240229235958007"


@pytest.mark.parametrize("text", [str(MILLIS), "2024-02-29#23:59:58:007", "2024-02-29T23:59:58.007"])
def test_times_are_parsed_from_numbers_java_format_and_iso(text: str) -> None:
    assert parse_millis(text, "--timestamp") == MILLIS


def test_an_invalid_time_is_refused_with_examples() -> None:
    for text in ("noon", "9" * 20, "0001-01-01T00:00:00"):
        with pytest.raises(InvalidUsage, match=f"'{text}' is not a time: give milliseconds, "):
            parse_millis(text, "--timestamp")


@pytest.mark.parametrize("millis", [(1 << 63) - 1, -(1 << 63)])
def test_a_time_out_of_range_is_printed_as_a_number(millis: int) -> None:
    """Producers set the born timestamp of a message to any number."""
    assert millis_text(millis) == f"{millis // 1000},{millis % 1000:03d}"
    assert compact_text(millis) == f"{millis // 1000}{millis % 1000:03d}"


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_seconds_must_be_finite(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a valid number of seconds|is not in the range"):
        Seconds(min=0).convert(text, None, None)
