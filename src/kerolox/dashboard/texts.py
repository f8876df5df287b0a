"""How numbers and times are written on pages. Times are UTC, and say so."""

from datetime import UTC, datetime

from kerolox.dashboard.sentences import Refused

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
# Year 9999, in milliseconds.
_MILLIS_MAX = 253_402_300_799_000


def number(value: float) -> str:
    """`12,345`; with one digit after the point where that says something."""
    if isinstance(value, float) and (value != round(value) and abs(value) < 1000):
        return f"{value:,.1f}"
    return f"{round(value):,}"


def size(value: float) -> str:
    """`3.4 MiB`."""
    for unit in _UNITS[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {_UNITS[-1]}"


def percent(value: float) -> str:
    return f"{value:.0%}"


def moment(millis: int | None) -> str:
    """`2026-11-16 15:04:05 UTC`; a dash for a time that never was."""
    if millis is None or not 0 < millis <= _MILLIS_MAX:
        return "–"
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def exact(millis: int) -> str:
    """`2026-11-16 15:04:05.123 UTC`, for what happens within a second."""
    if not 0 < millis <= _MILLIS_MAX:
        return "–"
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def span(seconds: float) -> str:
    """`2 d 3 h`, `4 min 5 s`, `6.7 s`."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = int(seconds)
    for unit, smaller, size, small in (("d", "h", 86400, 3600), ("h", "min", 3600, 60), ("min", "s", 60, 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small} {smaller}"
    return f"{whole} s"


def field_moment(millis: int) -> str:
    """A time as `<input type=datetime-local>` has it."""
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def parse_moment(text: str, name: str) -> int:
    """Returns milliseconds of what such a field gave, taken as UTC; Refused if it is no time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"{name} {text[:40]!r} is no time; such as 2026-01-31T15:04:05 is one") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_count(text: str, name: str, low: int, high: int) -> int:
    """Returns a whole number between two; Refused if it is none."""
    try:
        found = int(text)
    except ValueError:
        raise Refused(f"{name} {text[:40]!r} is no whole number") from None
    if not low <= found <= high:
        raise Refused(f"{name} is {found}, {low} to {high} are allowed")
    return found
