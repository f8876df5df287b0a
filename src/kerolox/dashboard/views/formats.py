"""Formats numbers and times for pages, and parses those of forms. Times are UTC."""

from datetime import UTC, datetime

from kerolox.dashboard.http.errors import RequestRefused

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
# Year 9999, in milliseconds.
_MILLIS_MAX = 253_402_300_799_000


def number(value: float) -> str:
    """Return `12,345`; numbers below 1000 have one decimal place if they are not whole."""
    if isinstance(value, float) and (value != round(value) and abs(value) < 1000):
        return f"{value:,.1f}"
    return f"{round(value):,}"


def size(value: float) -> str:
    """Return a size such as `3.4 MiB`."""
    for unit in _UNITS[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {_UNITS[-1]}"


def percent(value: float) -> str:
    return f"{value:.0%}"


def date_time(millis: int | None) -> str:
    """Return `2026-11-16 15:04:05 UTC`; a dash for None, zero and invalid times."""
    if millis is None or not 0 < millis <= _MILLIS_MAX:
        return "–"
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def exact_time(millis: int) -> str:
    """Return `2026-11-16 15:04:05.123 UTC`."""
    if not 0 < millis <= _MILLIS_MAX:
        return "–"
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def duration(seconds: float) -> str:
    """Return `2 d 3 h`, `4 min 5 s` or `6.7 s`."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = int(seconds)
    for unit, smaller, size, small in (("d", "h", 86400, 3600), ("h", "min", 3600, 60), ("min", "s", 60, 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small} {smaller}"
    return f"{whole} s"


def input_time(millis: int) -> str:
    """Return a time as the value of `<input type=datetime-local>`."""
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def parse_time(text: str, name: str) -> int:
    """Parse the value of `<input type=datetime-local>` as UTC, in milliseconds; RequestRefused if it is invalid."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise RequestRefused(f"{name} {text[:40]!r} is not a time such as 2026-01-31T15:04:05") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_count(text: str, name: str, low: int, high: int) -> int:
    """Parse a whole number from `low` to `high`; RequestRefused if it is invalid."""
    try:
        found = int(text)
    except ValueError:
        raise RequestRefused(f"{name} {text[:40]!r} is not a whole number") from None
    if not low <= found <= high:
        raise RequestRefused(f"{name} is {found}, {low} to {high} are allowed")
    return found
