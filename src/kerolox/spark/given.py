"""What a user gave as options: taken one by one, so that what is left in the end is unknown."""

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from kerolox.errors import ConfigurationError

T = TypeVar("T")

_UNITS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_FLAGS = {"true": True, "false": False}


class OptionError(ConfigurationError):
    """An option is unknown, or its value makes no sense, alone or with another; the message says what to do."""


class Given:
    """Options by name, without regard to case, as Spark hands them over.

    Each method takes the names of one option, the one to be shown first. Each name is taken even if it was not given,
    so that it is known.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._known: dict[str, str] = {}

    def text(self, *names: str) -> str | None:
        """Returns a value; OptionError if it was given under two names, with two values."""
        for name in names:
            self._known[name.lower()] = name
        found = {name: self._values[name.lower()] for name in names if name.lower() in self._values}
        if len(set(found.values())) > 1:
            raise OptionError(f"options {' and '.join(found)} mean the same and say different things: give one of them")
        value = next(iter(found.values()), None)
        if value is not None and not value.strip():
            raise OptionError(f"option {next(iter(found))} is empty: give it a value, or leave it out")
        return value

    def one_of(self, name: str, *allowed: str, default: str) -> str:
        """Returns the one of some words that was given, without regard to case."""
        value = self.text(name)
        if value is None:
            return default
        for word in allowed:
            if value.strip().lower() == word.lower():
                return word
        raise OptionError(f"option {name} is {value!r}: give one of {', '.join(allowed)}")

    def flag(self, *names: str, default: bool) -> bool:
        return self._parsed(names, lambda text: _FLAGS[text.lower()], "true or false", default)

    def count(self, *names: str, at_least: int = 1) -> int | None:
        def parse(text: str) -> int:
            number = int(text)
            if number < at_least:
                raise ValueError
            return number

        return self._parsed(names, parse, f"a whole number of at least {at_least}", None)

    def millis(self, *names: str) -> int | None:
        """Returns a duration such as `500`, `30s` or `15m` in milliseconds."""

        def parse(text: str) -> int:
            number, unit = _DURATION.fullmatch(text.lower()).groups()  # type: ignore[union-attr]
            return int(number) * _UNITS[unit]

        return self._parsed(names, parse, "milliseconds, or a duration such as 30s, 15m or 1h", None)

    def json(self, name: str, wanted: str) -> Any:
        """Returns what a JSON object says."""

        def parse(text: str) -> Any:
            value = json.loads(text)
            if not isinstance(value, dict):
                raise ValueError
            return value

        return self._parsed((name,), parse, wanted, None)

    def _parsed(self, names: tuple[str, ...], parse: Callable[[str], T], wanted: str, default: T) -> T:
        value = self.text(*names)
        if value is None:
            return default
        try:
            return parse(value.strip())
        except (ValueError, KeyError, AttributeError):
            raise OptionError(f"option {names[0]} is {value!r}: give {wanted}") from None

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def at_most_one(self, *names: str) -> str | None:
        """Returns the one of these that was given; OptionError if there are more."""
        given = [name for name in names if self.has(name)]
        if len(given) > 1:
            raise OptionError(f"options {' and '.join(given)} contradict each other: give one of them")
        return given[0] if given else None

    def refuse(self, names: Mapping[str, str]) -> None:
        """Raises OptionError if one of these was given, with what to do instead."""
        for name, remedy in names.items():
            if self.has(name):
                raise OptionError(f"option {name} {remedy}")

    def end(self) -> None:
        """Raises OptionError if something was given that nobody has asked for."""
        for name in self._values:
            if name not in self._known:
                self._unknown(name)

    def _unknown(self, name: str) -> NoReturn:
        close = get_close_matches(name, self._known, n=1, cutoff=0.7)
        remedy = (
            f"is {self._known[close[0]]} meant?" if close else f"there are {', '.join(sorted(self._known.values()))}"
        )
        raise OptionError(f"option {name} is unknown: {remedy}")
