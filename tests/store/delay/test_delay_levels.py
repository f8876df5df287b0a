"""Delay levels."""

import pytest

from kerolox.errors import ConfigurationError
from kerolox.store.config import StoreConfig
from kerolox.store.delay.delay_levels import due_timestamp, java_int, parse_levels


def test_the_default_levels_are_those_of_rocketmq() -> None:
    levels = parse_levels(StoreConfig().message_delay_level)

    assert len(levels) == 18
    assert (levels[1], levels[5], levels[14], levels[18]) == (1000, 60_000, 600_000, 7_200_000)


def test_a_level_that_does_not_exist_counts_as_a_second() -> None:
    assert due_timestamp({1: 5000}, 1, 100) == 5100
    assert due_timestamp({1: 5000}, 2, 100) == 1100


@pytest.mark.parametrize("text", ["1", "s", "1w", "-1s", "1.5m", "1 s"])
def test_an_invalid_delay_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="messageDelayLevel"):
        parse_levels(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [(b"7", 7), (b"+7", 7), (b"-7", -7), (b"007", 7), (b"2147483647", 2**31 - 1), (b"-2147483648", -(2**31))],
)
def test_numbers_are_parsed_as_in_java(text: bytes, number: int) -> None:
    assert java_int(text) == number


@pytest.mark.parametrize("text", [b"", b"+", b"-", b"--1", b" 1", b"1_0", b"2147483648", b"-2147483649", b"9" * 5000])
def test_numbers_that_java_refuses_are_none(text: bytes) -> None:
    assert java_int(text) is None
