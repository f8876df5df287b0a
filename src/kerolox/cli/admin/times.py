"""Times as Java's tools write and read them, in the time zone of this machine."""

from datetime import datetime

import click

from kerolox.cli.admin.errors import Misused

_JAVA = "%Y-%m-%d#%H:%M:%S:%f"


class Seconds(click.FloatRange):
    """A flag that says how long."""

    name = "number of seconds"


def seconds_text(millis: int) -> str:
    """2024-02-29 23:59:59"""
    return f"{datetime.fromtimestamp(millis / 1000):%Y-%m-%d %H:%M:%S}"


def millis_text(millis: int) -> str:
    """2024-02-29 23:59:59,999"""
    return f"{seconds_text(millis // 1000 * 1000)},{millis % 1000:03d}"


def digits(millis: int) -> str:
    """20240229235959999"""
    return f"{datetime.fromtimestamp(millis // 1000):%Y%m%d%H%M%S}{millis % 1000:03d}"


def parse_millis(text: str, name: str) -> int:
    """Returns the milliseconds of a number, of Java's 2024-02-29#23:59:59:999, or of an ISO time."""
    try:
        return int(text)
    except ValueError:
        pass
    for parse in (lambda it: datetime.strptime(it, _JAVA), datetime.fromisoformat):
        try:
            return round(parse(text).timestamp() * 1000)
        except ValueError:
            continue
    raise Misused(f"{name} {text!r} is no time: give milliseconds, 2024-02-29#23:59:59:999 or 2024-02-29T23:59:59")
