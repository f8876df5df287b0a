"""Configuration dataclasses: one line per setting declares its RocketMQ key, type, default and bounds."""

import dataclasses
import enum
import logging
import types
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from kerolox.errors import ConfigurationError

log = logging.getLogger(__name__)

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def named(key: str, default: Any) -> Any:
    """Declare a field whose key is not the camelCase form of its name."""
    return dataclasses.field(default=default, metadata={"key": key})


def formerly(key: str, default: Any) -> Any:
    """Declare a field whose key had another spelling in older releases; both are accepted."""
    return dataclasses.field(default=default, metadata={"formerly": key})


def bounded(default: int, low: int, high: int) -> Any:
    """Declare a number that must lie between `low` and `high`, both included."""
    return dataclasses.field(default=default, metadata={"bounds": (low, high)})


def changeable(default: Any, low: int = INT_MIN, high: int = INT_MAX) -> Any:
    """Declare a flag or a number that an operator may change over the wire while the process runs."""
    return dataclasses.field(default=default, metadata={"changeable": True, "bounds": (low, high)})


def camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


@dataclasses.dataclass(slots=True)
class Properties:
    """Base of the configuration dataclasses. Undeclared keys are kept in `extra` and returned by `to_properties`."""

    extra: dict[str, str] = dataclasses.field(default_factory=dict, kw_only=True)

    @classmethod
    def keys(cls) -> dict[str, "dataclasses.Field[Any]"]:
        """Return each declared field under its key in a properties file."""
        return {
            field.metadata.get("key") or camel(field.name): field
            for field in dataclasses.fields(cls)
            if field.name != "extra"
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        settings = cls()
        settings.update(properties)
        return settings

    def update(self, properties: Mapping[str, str]) -> None:
        """Apply all settings, or none if one of them is invalid."""
        properties = self.renamed(properties)
        for name, value in self.check(properties).items():
            setattr(self, name, value)
        keys = self.keys()
        self.extra.update({key: text for key, text in properties.items() if key not in keys})

    @classmethod
    def renamed(cls, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties with old spellings of keys replaced; if both are given, the current one wins."""
        current = {field.metadata["formerly"]: key for key, field in cls.keys().items() if "formerly" in field.metadata}
        return {
            current.get(key, key): text
            for key, text in properties.items()
            if key not in current or current[key] not in properties
        }

    @classmethod
    def check(cls, properties: Mapping[str, str]) -> dict[str, Any]:
        """Return the parsed values of the declared settings by field name; ConfigurationError if one is invalid."""
        keys, properties = cls.keys(), cls.renamed(properties)
        hints = typing.get_type_hints(cls)
        return {
            keys[key].name: _value(key, keys[key], hints[keys[key].name], text.strip())
            for key, text in properties.items()
            if key in keys
        }

    def to_properties(self) -> dict[str, str]:
        declared = {key: _text(getattr(self, field.name)) for key, field in self.keys().items()}
        return dict(sorted((declared | self.extra).items()))


def warn_of_unknown(file: Path, keys: Collection[str]) -> None:
    """Log the keys of a configuration file that have no effect, so that a misspelt one is noticed."""
    if keys:
        log.warning("%s: unknown keys have no effect: %s", file, ", ".join(sorted(keys)))


def _value(key: str, field: "dataclasses.Field[Any]", kind: Any, text: str) -> Any:
    if isinstance(kind, types.UnionType):
        kind = next(member for member in kind.__args__ if member is not types.NoneType)
        if not text:
            return None
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if kind is Path:
            return Path(text).expanduser()
        if kind is int:
            return _number(key, text, *field.metadata.get("bounds", (INT_MIN, INT_MAX)))
        return kind(text)
    except (ValueError, KeyError) as error:
        if kind is bool:
            wanted = "true or false"
        elif isinstance(kind, type) and issubclass(kind, enum.Enum):
            wanted = ", ".join(str(member.value) for member in kind)
        else:
            wanted = f"a value of type {kind.__name__}"
        raise ConfigurationError(f"{key}={text!r} cannot be used: expected {wanted}") from error


def _number(key: str, text: str, low: int, high: int) -> int:
    # Longer numbers exceed every bound, and parsing them takes quadratic time.
    value = int(text) if len(text) < 20 else high + 1
    if not low <= value <= high:
        raise ConfigurationError(f"{key}={text[:40]!r} cannot be used: expected a number from {low} to {high}")
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value) if isinstance(value, enum.Enum) else str(value)
