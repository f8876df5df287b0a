"""Java's values and how they compare: texts, which may have to be read as numbers, and constants."""

import re
from typing import Final, TypeAlias

from kerolox.filters.errors import EvaluationError


class Long(int):
    """A constant that Java keeps in 64 bits; one that fits into 32 is an int. It decides what texts can be read."""

    __slots__ = ()


# The text of a property or constant (UTF-8), a truth value, a number; None is NULL, and unknown.
Value: TypeAlias = bytes | bool | int | float | None

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_LONG_DIGITS: Final = 19
_SURELY_INT_DIGITS: Final = 9
# A bound that Java does not have: what is longer takes long to read, and each comparison would read it again.
_DOUBLE_SIZE_MAX: Final = 1024

_BLANKS = bytes(range(33))
_DECIMAL = re.compile(rb"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_NAMED = re.compile(rb"[+-]?(?:NaN|Infinity)")
_HEX = re.compile(rb"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
# Digits of any script, as long as Java holds each in one char.
_DIGITS = re.compile(r"[+-]?(?:(?![\U00010000-\U0010ffff])\d)+")


def read_int(text: bytes) -> int:
    """Returns what Integer.valueOf does; EvaluationError if the text is no integer of 32 bits."""
    if len(text) <= _SURELY_INT_DIGITS and text.isdigit():
        return int(text)
    number = _integer(text)
    if -_INT_MAX - 1 <= number <= _INT_MAX:
        return number
    raise EvaluationError(f"{number} does not fit into 32 bits")


def read_long(text: bytes) -> int:
    """Returns what Long.valueOf does; EvaluationError if the text is no integer of 64 bits."""
    number = _integer(text)
    if -_LONG_MAX - 1 <= number <= _LONG_MAX:
        return number
    raise EvaluationError(f"{number} does not fit into 64 bits")


def read_double(text: bytes) -> float:
    """Returns what Double.valueOf does, blanks, suffixes and hexadecimals included; else EvaluationError."""
    if len(text) > _DOUBLE_SIZE_MAX:
        raise EvaluationError(f"a text of {len(text)} bytes is no number, which has at most {_DOUBLE_SIZE_MAX}")
    text = text.strip(_BLANKS)
    if found := _DECIMAL.fullmatch(text):
        return float(found[1])
    if _NAMED.fullmatch(text):
        return float(text)
    if found := _HEX.fullmatch(text):
        try:
            return float.fromhex(found[1].decode())
        except OverflowError:
            return float("-inf" if text[0] == 0x2D else "inf")
    raise EvaluationError(f"{_shown(text)} is no number")


def read_true(text: bytes) -> bool:
    """Whether a text is `true`, in any case; all others are false."""
    return text.lower() == b"true"


def compare(left: Value, right: Value) -> int:
    """Returns -1, 0 or 1, whichever Java's comparison of two values that are not NULL comes to.

    A text is read as what it is compared with, and then it may raise EvaluationError. What cannot be compared is less.
    """
    assert left is not None
    assert right is not None
    if isinstance(left, bool):
        if isinstance(right, bytes):
            # Java converts the wrong one of the two here, and fails.
            raise EvaluationError(f"{left} cannot be compared with a text")
        return _order(left, right) if isinstance(right, bool) else -1
    if isinstance(right, bool):
        return _order(read_true(left), right) if isinstance(left, bytes) else -1
    if isinstance(left, bytes):
        return _order(left, right) if isinstance(right, bytes) else _order_numbers(_read_as(right, left), right)
    if isinstance(right, bytes):
        return _order_numbers(left, _read_as(left, right))
    return _order_numbers(left, right)


def order_doubles(left: float, right: float) -> int:
    """Returns what Double.compareTo does: NaN equals itself and is the greatest, -0.0 is less than 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _order(_rank(left), _rank(right))


def _rank(number: float) -> tuple[bool, bool]:
    is_nan = number != number
    return is_nan, not is_nan and not str(number).startswith("-")


def _read_as(number: int | float, text: bytes) -> int | float:
    if isinstance(number, float):
        return read_double(text)
    return read_long(text) if isinstance(number, Long) else read_int(text)


def _order_numbers(left: int | float, right: int | float) -> int:
    if isinstance(left, float) or isinstance(right, float):
        return order_doubles(float(left), float(right))
    return _order(left, right)


def _order(left: object, right: object) -> int:
    if left == right:
        return 0
    return -1 if left < right else 1  # type: ignore[operator]


def _integer(text: bytes) -> int:
    digits = text[1:] if text[:1] in (b"-", b"+") else text
    if digits.isdigit():
        # Zeros in front may be as many as they like, for which Python's own reader has a bound.
        digits = digits.lstrip(b"0") or b"0"
        if len(digits) <= _LONG_DIGITS:
            return -int(digits) if text[0] == 0x2D else int(digits)
    elif not text.isascii():
        decoded = text.decode("utf-8", "replace")
        if len(decoded) <= _LONG_DIGITS and _DIGITS.fullmatch(decoded):
            return int(decoded)
    raise EvaluationError(f"{_shown(text)} is no integer")


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))
