"""Keys of a section of TOML: taken one by one, so that what is left in the end is unknown."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from kerolox.spark.given import OptionError


class Keys:
    """Each method takes a key and says what it should be; what was never taken is refused by `end`."""

    def __init__(self, content: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self._content = content
        self._prefix = prefix
        self.where = where
        self._known: set[str] = set()

    def text(self, key: str) -> str | None:
        value = self._taken(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(key, value, "a text that is not empty")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._taken(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def list(self, key: str) -> list[str]:
        """Returns texts; one that stands alone is a list of one."""
        value = self._taken(key)
        values = [value] if isinstance(value, str) else value if value is not None else []
        if not isinstance(values, list) or not all(isinstance(part, str) and part.strip() for part in values):
            raise self._wrong(key, value, "a list of texts")
        return list(values)

    def texts(self, key: str) -> dict[str, str]:
        """Returns a section of which any key is taken, with values as Spark has them."""
        value = self._taken(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._wrong(key, value, "a section of keys and values")
        return {name: self._option(f"{key}.{name}", part) for name, part in _flat(value)}

    def _option(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise self._wrong(key, value, "a text, a number, or true or false")

    def section(self, key: str) -> "Keys | None":
        value = self._taken(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(key, value, "a section of keys and values")
        return Keys(value, self._named(key), self._named(key) + ".")

    def sections(self, key: str) -> Iterator[tuple[str, "Keys"]]:
        """Yields the sections `[key.NAME]`, in their order."""
        within = self.section(key)
        if within is None:
            return
        for name in within._content:
            part = within.section(name)
            assert part is not None
            yield name, part

    def end(self) -> None:
        """Raises OptionError if there is a key that nobody has asked for."""
        for key in self._content:
            if key not in self._known:
                close = get_close_matches(key, self._known, n=1, cutoff=0.6)
                remedy = f"is {close[0]} meant?" if close else f"there are {', '.join(sorted(self._known))}"
                raise OptionError(f"{self._named(key)} is unknown in {self.where}: {remedy}")

    def _taken(self, key: str) -> Any:
        self._known.add(key)
        return self._content.get(key)

    def _named(self, key: str) -> str:
        return self._prefix + key

    def _wrong(self, key: str, value: Any, wanted: str) -> OptionError:
        return OptionError(f"{self._named(key)} is {value!r}: give {wanted}")


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields `a.b.c` for what TOML reads as sections in sections, where the dots were part of a name."""
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from _flat(part, f"{prefix}{name}.")
        else:
            yield prefix + name, part
