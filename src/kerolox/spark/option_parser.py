"""Parsers for options of Spark and for keys of a TOML file; both reject names that no code asked for."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from kerolox.errors import ConfigurationError

T = TypeVar("T")

_MILLIS_PER_UNIT = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_FLAGS = {"true": True, "false": False}
# How similar an unknown name must be to a known one to be suggested.
_SIMILARITY_MIN = 0.6


class OptionError(ConfigurationError):
    """An option is unknown, or its value is invalid, alone or in combination; the message names the remedy."""


class _Parser:
    """Records every name it is asked for, so that `end` can reject the others."""

    def __init__(self, values: Mapping[str, Any], prefix: str, scope: str = "") -> None:
        """`prefix` precedes names in error messages; `scope` says where an unknown name was found."""
        self._values = values
        self._prefix = prefix
        self._scope = scope
        # Name as it is looked up → name as it is shown.
        self._known: dict[str, str] = {}

    def end(self) -> None:
        """Raise OptionError if there is an option that was never asked for."""
        for name in self._values:
            if name not in self._known:
                close = get_close_matches(name, self._known, n=1, cutoff=_SIMILARITY_MIN)
                remedy = f"is {self._known[close[0]]} meant?" if close else f"there are {self._all_known()}"
                raise OptionError(f"{self._prefix}{name} is unknown{self._scope}: {remedy}")

    def _all_known(self) -> str:
        return ", ".join(sorted(self._known.values()))

    def _invalid(self, name: str, value: Any, wanted: str) -> OptionError:
        return OptionError(f"{self._prefix}{name} is {value!r}: give {wanted}")


class OptionParser(_Parser):
    """Options as Spark passes them: strings, with case-insensitive names.

    Each method takes all names of one option, the one for error messages first. A name counts as known even if the
    option was not given.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({name.lower(): value for name, value in options.items()}, "option ")

    def text(self, *names: str) -> str | None:
        """Return the value; OptionError if two of the names were given with different values."""
        for name in names:
            self._known[name.lower()] = name
        found = {name: self._values[name.lower()] for name in names if name.lower() in self._values}
        if len(set(found.values())) > 1:
            raise OptionError(f"options {' and '.join(found)} are synonyms with different values: give one of them")
        value: str | None = next(iter(found.values()), None)
        if value is not None and not value.strip():
            raise OptionError(f"option {next(iter(found))} is empty: give it a value, or leave it out")
        return value

    def one_of(self, name: str, *allowed: str, default: str) -> str:
        """Return the allowed word that was given, in any case of letters."""
        value = self.text(name)
        if value is None:
            return default
        for word in allowed:
            if value.strip().lower() == word.lower():
                return word
        raise self._invalid(name, value, f"one of {', '.join(allowed)}")

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
        """Return a duration such as `500`, `30s` or `15m` in milliseconds."""

        def parse(text: str) -> int:
            number, unit = _DURATION.fullmatch(text.lower()).groups()  # type: ignore[union-attr]
            return int(number) * _MILLIS_PER_UNIT[unit]

        return self._parsed(names, parse, "milliseconds, or a duration such as 30s, 15m or 1h", None)

    def json(self, name: str, wanted: str) -> Any:
        """Return the parsed JSON object."""

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
            raise self._invalid(names[0], value, wanted) from None

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def at_most_one(self, *names: str) -> str | None:
        """Return which of these options was given; OptionError if more than one was."""
        given = [name for name in names if self.has(name)]
        if len(given) > 1:
            raise OptionError(f"options {' and '.join(given)} contradict each other: give one of them")
        return given[0] if given else None

    def refuse(self, remedies: Mapping[str, str]) -> None:
        """Raise OptionError with the remedy if one of these options was given."""
        for name, remedy in remedies.items():
            if self.has(name):
                raise OptionError(f"option {name} {remedy}")


class TomlSection(_Parser):
    """A section of a TOML file: typed values, with case-sensitive keys."""

    def __init__(self, content: Mapping[str, Any], where: str, prefix: str = "") -> None:
        super().__init__(content, prefix, f" in {where}")
        self.where = where

    def text(self, key: str) -> str | None:
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self._invalid(key, value, "a non-empty string")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._invalid(key, value, "true or false")
        return value

    def strings(self, key: str) -> list[str]:
        """Return a list of strings; a single string becomes a list of one."""
        value = self._take(key)
        values = [value] if isinstance(value, str) else value if value is not None else []
        if not isinstance(values, list) or not all(isinstance(part, str) and part.strip() for part in values):
            raise self._invalid(key, value, "a list of strings")
        return list(values)

    def spark_options(self, key: str) -> dict[str, str]:
        """Return a section of arbitrary keys, its values converted to strings as Spark expects them."""
        value = self._take(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._invalid(key, value, "a section of keys and values")
        return {name: self._spark_option(f"{key}.{name}", part) for name, part in _flatten(value)}

    def _spark_option(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise self._invalid(key, value, "a string, a number, or true or false")

    def section(self, key: str) -> "TomlSection | None":
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._invalid(key, value, "a section of keys and values")
        name = self._prefix + key
        return TomlSection(value, name, f"{name}.")

    def sections(self, key: str) -> Iterator[tuple[str, "TomlSection"]]:
        """Yield name and content of the sections `[key.NAME]`, in their order."""
        parent = self.section(key)
        if parent is None:
            return
        for name in parent._values:
            part = parent.section(name)
            assert part is not None
            yield name, part

    def _take(self, key: str) -> Any:
        self._known[key] = key
        return self._values.get(key)


def _flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield `a.b.c` for nested sections: TOML parses an unquoted option name with dots as sections."""
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from _flatten(part, f"{prefix}{name}.")
        else:
            yield prefix + name, part
