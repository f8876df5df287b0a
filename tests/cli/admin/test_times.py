"""Times as Java's tools have them."""

from datetime import datetime

import pytest

from kerolox.cli.admin.errors import Misused
from kerolox.cli.admin.times import digits, millis_text, parse_millis, seconds_text

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
    with pytest.raises(Misused, match="'noon' is no time: give milliseconds, "):
        parse_millis("noon", "--timestamp")
