"""Formats and parses times as Java's tools do, in the local time zone."""

import math
from datetime import datetime
from typing import Any

import click

from kerolox.cli.admin.errors import InvalidUsage

# Long.MAX_VALUE.
_MILLIS_MAX = (1 << 63) - 1
_JAVA = "%Y-%m-%d#%H:%M:%S:%f"


class Seconds(click.FloatRange):
    """The type of a flag that is a duration; infinity and NaN are refused."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        return seconds if math.isfinite(seconds) else self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)


def seconds_text(millis: int) -> str:
    """Return a time like 2024-02-29 23:59:59."""
    return _formatted(millis // 1000, "%Y-%m-%d %H:%M:%S")


def millis_text(millis: int) -> str:
    """Return a time like 2024-02-29 23:59:59,999."""
    return f"{seconds_text(millis)},{millis % 1000:03d}"


def compact_text(millis: int) -> str:
    """Return a time like 20240229235959999."""
    return f"{_formatted(millis // 1000, '%Y%m%d%H%M%S')}{millis % 1000:03d}"


def _formatted(seconds: int, layout: str) -> str:
    """Return the formatted time, or the number itself if it is out of the range of dates: clients set timestamps."""
    try:
        return datetime.fromtimestamp(seconds).strftime(layout)
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def parse_millis(text: str, name: str) -> int:
    """Return milliseconds from a number, from Java's 2024-02-29#23:59:59:999, or from an ISO time.

    Raise InvalidUsage, with `name` for the flag, over any other text.
    """
    for parse in (int, _parse_java, _parse_iso):
        try:
            millis = parse(text)
        except (ValueError, OverflowError):
            continue
        if abs(millis) <= _MILLIS_MAX:
            return millis
    raise InvalidUsage(
        f"{name} {text!r} is not a time: give milliseconds, 2024-02-29#23:59:59:999 or 2024-02-29T23:59:59"
    )


def _parse_java(text: str) -> int:
    return round(datetime.strptime(text, _JAVA).timestamp() * 1000)


def _parse_iso(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
