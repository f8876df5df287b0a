"""Fast reading of properties that do not change how a message is stored, as those of most messages.

Messages of one producer mostly differ only in unique key and keys. These two are cut out, and the meaning of the rest,
which repeats, is cached by its bytes.
"""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from kerolox.message import property_names
from kerolox.message.properties import find, mark
from kerolox.message.tags import tags_code

_UNIQ_KEY, _KEYS, _TAGS, _WAIT = (
    mark(name) for name in (property_names.UNIQ_KEY, property_names.KEYS, property_names.TAGS, property_names.WAIT)
)
_UNIQ_KEY_SIZE, _KEYS_SIZE = len(_UNIQ_KEY), len(_KEYS)
# Limits of the cache, so that hostile properties cannot fill the memory.
_KNOWN_MAX = 1024
_KNOWN_SIZE_MAX = 512


class Traits(msgspec.Struct, frozen=True, gc=False):
    """What the store needs of properties besides keys."""

    tag: bytes
    tags_code: int


# Unique key, keys, and the traits of the rest.
FoundProperties: TypeAlias = tuple[bytes, bytes, Traits]


class PlainProperties:
    """Reads plain properties: no name begins, in its first four bytes, like one of `unusual`."""

    def __init__(self, unusual: Iterable[bytes]) -> None:
        self._unusual = frozenset(name[:4] for name in (*unusual, _UNIQ_KEY, _KEYS))
        # Properties without unique key and keys → traits; None if they are not plain.
        self._known: dict[bytes, Traits | None] = {}
        # The most frequent case: bytes after a unique key that comes first, with no keys among them → traits.
        self._usual: dict[bytes, Traits] = {}

    def read(self, data: bytes) -> FoundProperties | None:
        """Return unique key, keys and traits; None if the properties are not plain and must be parsed."""
        if data.startswith(_UNIQ_KEY):
            end = data.find(b"\x02", _UNIQ_KEY_SIZE)
            traits = self._usual.get(data[end:]) if end > _UNIQ_KEY_SIZE else None
            if traits is not None:
                return data[_UNIQ_KEY_SIZE:end], b"", traits
        return self._read(data)

    def _read(self, data: bytes) -> FoundProperties | None:
        start = data.find(_UNIQ_KEY)
        if start < 0 or (start and data[start - 1] != 2):
            return None
        end = data.find(b"\x02", start)
        if end < 0:
            end = len(data)
        unique_key, rest = data[start + _UNIQ_KEY_SIZE : end], data[:start] + data[end:]
        keys = b""
        start = rest.find(_KEYS)
        if start >= 0:
            if start and rest[start - 1] != 2:
                return None
            end = rest.find(b"\x02", start)
            if end < 0:
                end = len(rest)
            keys, rest = rest[start + _KEYS_SIZE : end], rest[:start] + rest[end:]
        traits = self._known[rest] if rest in self._known else self._learn(rest)
        if traits is not None and not keys and len(rest) <= _KNOWN_SIZE_MAX:
            self._usual[rest] = traits
        return None if traits is None or not unique_key else (unique_key, keys, traits)

    def _learn(self, rest: bytes) -> Traits | None:
        traits = None
        beginnings = {part[:4] for part in rest.split(b"\x02")}
        if not beginnings & self._unusual and find(rest, _WAIT) != b"false":
            tag = find(rest, _TAGS)
            traits = Traits(tag, tags_code(tag))
        if len(rest) <= _KNOWN_SIZE_MAX:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
                self._usual.clear()
            self._known[rest] = traits
        return traits
