"""Times as Java's tools write and read them, in the time zone of this machine."""

import math
from datetime import datetime
from typing import Any

import click

from kerolox.cli.admin.errors import Misused

# A long of Java's.
_MILLIS_MAX = (1 << 63) - 1
_JAVA = "%Y-%m-%d#%H:%M:%S:%f"


class Seconds(click.FloatRange):
    """A flag that says how long."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        return seconds if math.isfinite(seconds) else self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)


def seconds_text(millis: int) -> str:
    """2024-02-29 23:59:59"""
    return _written(millis // 1000, "%Y-%m-%d %H:%M:%S")


def millis_text(millis: int) -> str:
    """2024-02-29 23:59:59,999"""
    return f"{seconds_text(millis)},{millis % 1000:03d}"


def digits(millis: int) -> str:
    """20240229235959999"""
    return f"{_written(millis // 1000, '%Y%m%d%H%M%S')}{millis % 1000:03d}"


def _written(seconds: int, layout: str) -> str:
    """Returns a moment so, or the number itself: clients say when, and some say a time that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds).strftime(layout)
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def parse_millis(text: str, name: str) -> int:
    """Returns the milliseconds of a number, of Java's 2024-02-29#23:59:59:999, or of an ISO time."""
    for parse in (int, _of_java, _of_iso):
        try:
            millis = parse(text)
        except (ValueError, OverflowError):
            continue
        if abs(millis) <= _MILLIS_MAX:
            return millis
    raise Misused(f"{name} {text!r} is no time: give milliseconds, 2024-02-29#23:59:59:999 or 2024-02-29T23:59:59")


def _of_java(text: str) -> int:
    return round(datetime.strptime(text, _JAVA).timestamp() * 1000)


def _of_iso(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
