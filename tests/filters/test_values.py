import math

import pytest

from kerolox.filters.errors import EvaluationError
from kerolox.filters.values import Long, compare, order_doubles, read_double, read_int, read_long


def test_doubles_are_ordered_as_double_compare_to_does() -> None:
    ascending = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]

    for left, first in enumerate(ascending):
        for right, second in enumerate(ascending):
            assert order_doubles(first, second) == (left > right) - (left < right)


@pytest.mark.parametrize("text", [b"", b" 5", b"5 ", b"1_0", b"0x10", b"5.0", b"+", b"-", b"--5", b"5L", b"\xff"])
def test_texts_that_java_does_not_parse_as_integers_are_refused(text: bytes) -> None:
    for read in (read_int, read_long):
        with pytest.raises(EvaluationError):
            read(text)


def test_integers_out_of_range_are_refused() -> None:
    assert read_int(b"-2147483648") == -(2**31)
    assert read_int(b"0" * 5000 + b"7") == 7
    assert read_long(b"+9223372036854775807") == 2**63 - 1
    for read, text in ((read_int, b"2147483648"), (read_long, b"-9223372036854775809"), (read_long, b"9" * 10_000)):
        with pytest.raises(EvaluationError):
            read(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [(b" 1.5 ", 1.5), (b"1d", 1.0), (b"0x1p3", 8.0), (b"-0x1p9999", -math.inf), (b"1e999", math.inf), (b".5F", 0.5)],
)
def test_all_of_javas_notations_of_doubles_are_parsed(text: bytes, number: float) -> None:
    assert read_double(text) == number


def test_the_length_of_a_double_is_limited() -> None:
    """A property may have 32 KiB, and each of hundreds of comparisons would parse it again."""
    assert read_double(b"0" * 1023 + b"7") == 7

    with pytest.raises(EvaluationError, match="text of 1025 bytes exceeds the limit of 1024 for a number"):
        read_double(b"0" * 1024 + b"7")


@pytest.mark.parametrize("text", [b"", b"inf", b"nan", b"infinity", b"1_0.0", b"0x10", b"1e", b"\xd9\xa3"])
def test_pythons_own_notations_of_doubles_are_refused(text: bytes) -> None:
    with pytest.raises(EvaluationError):
        read_double(text)


def test_a_text_is_parsed_as_the_type_it_is_compared_with() -> None:
    assert compare(b"5", 5) == 0
    assert compare(5, b"6") == -1
    assert compare(b"5.5", 5.0) == 1
    assert compare(b"2147483648", Long(5)) == 1
    assert compare(b"TRUE", True) == 0
    assert compare(5, True) == compare(True, 5) == -1
    with pytest.raises(EvaluationError):
        compare(b"2147483648", 5)
    with pytest.raises(EvaluationError):
        compare(True, b"true")
