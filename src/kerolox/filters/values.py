"""Values of expressions and their comparison as in Java (ComparisonExpression)."""

import re
from typing import Final, TypeAlias

from kerolox.filters.errors import EvaluationError


class Long(int):
    """A constant that Java holds in a Long; one that fits into 32 bits is an Integer. Texts are parsed accordingly."""

    __slots__ = ()


# The text of a property or constant (UTF-8), a truth value or a number; None is NULL and unknown.
Value: TypeAlias = bytes | bool | int | float | None

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_LONG_DIGITS: Final = 19
_SURELY_INT_DIGITS: Final = 9
# A limit that Java does not have: longer texts are slow to parse, and every comparison parses them again.
_DOUBLE_SIZE_MAX: Final = 1024

_BLANKS = bytes(range(33))
_DECIMAL = re.compile(rb"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_NAMED = re.compile(rb"[+-]?(?:NaN|Infinity)")
_HEX = re.compile(rb"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
# Digits of any script in the basic multilingual plane: Java parses char by char.
_DIGITS = re.compile(r"[+-]?(?:(?![\U00010000-\U0010ffff])\d)+")


def read_int(text: bytes) -> int:
    """Parse like Integer.valueOf; EvaluationError if the text is not a 32-bit integer."""
    if len(text) <= _SURELY_INT_DIGITS and text.isdigit():
        return int(text)
    number = _integer(text)
    if -_INT_MAX - 1 <= number <= _INT_MAX:
        return number
    raise EvaluationError(f"{number} does not fit into 32 bits")


def read_long(text: bytes) -> int:
    """Parse like Long.valueOf; EvaluationError if the text is not a 64-bit integer."""
    number = _integer(text)
    if -_LONG_MAX - 1 <= number <= _LONG_MAX:
        return number
    raise EvaluationError(f"{number} does not fit into 64 bits")


def read_double(text: bytes) -> float:
    """Parse like Double.valueOf, including blanks, suffixes and hexadecimal numbers; EvaluationError if it fails."""
    if len(text) > _DOUBLE_SIZE_MAX:
        raise EvaluationError(f"text of {len(text)} bytes exceeds the limit of {_DOUBLE_SIZE_MAX} for a number")
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
    raise EvaluationError(f"{_shown(text)} is not a number")


def read_true(text: bytes) -> bool:
    """Parse like Boolean.valueOf: `true` in any case is True, everything else False."""
    return text.lower() == b"true"


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1, as Java's comparison of two values that are not NULL does.

    A text is parsed as the type of the other value, which may raise EvaluationError. If two values cannot be compared,
    the left one is less.
    """
    assert left is not None
    assert right is not None
    if isinstance(left, bool):
        if isinstance(right, bytes):
            # Java converts the wrong one of the two here and fails.
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
    """Order like Double.compareTo: NaN equals itself and is the greatest, -0.0 is less than 0.0."""
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
        # Any number of leading zeros is valid, but Python's int() limits the digits.
        digits = digits.lstrip(b"0") or b"0"
        if len(digits) <= _LONG_DIGITS:
            return -int(digits) if text[0] == 0x2D else int(digits)
    elif not text.isascii():
        decoded = text.decode("utf-8", "replace")
        if len(decoded) <= _LONG_DIGITS and _DIGITS.fullmatch(decoded):
            return int(decoded)
    raise EvaluationError(f"{_shown(text)} is not an integer")


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))
