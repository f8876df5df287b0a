"""Delay levels."""

import pytest

from kerolox.errors import ConfigurationError
from kerolox.store.configuration import StoreConfig
from kerolox.store.delay.delays import due_timestamp, java_int, parse_levels


def test_the_levels_of_the_original_are_known() -> None:
    levels = parse_levels(StoreConfig().message_delay_level)

    assert len(levels) == 18
    assert (levels[1], levels[5], levels[14], levels[18]) == (1000, 60_000, 600_000, 7_200_000)


def test_a_level_that_does_not_exist_counts_as_a_second() -> None:
    assert due_timestamp({1: 5000}, 1, 100) == 5100
    assert due_timestamp({1: 5000}, 2, 100) == 1100


@pytest.mark.parametrize("text", ["1", "s", "1w", "-1s", "1.5m", "1 s"])
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="messageDelayLevel"):
        parse_levels(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [(b"7", 7), (b"+7", 7), (b"-7", -7), (b"007", 7), (b"2147483647", 2**31 - 1), (b"-2147483648", -(2**31))],
)
def test_numbers_are_read_as_java_reads_them(text: bytes, number: int) -> None:
    assert java_int(text) == number


@pytest.mark.parametrize("text", [b"", b"+", b"-", b"--1", b" 1", b"1_0", b"2147483648", b"-2147483649", b"9" * 5000])
def test_what_java_does_not_read_is_no_number(text: bytes) -> None:
    assert java_int(text) is None
