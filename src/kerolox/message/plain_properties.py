"""Fast reading of properties that do not change how a message is stored, as those of most messages."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, TypeAlias

# Unique key, keys and tag; the last two are empty if there are none.
FoundProperties: TypeAlias = tuple[bytes, bytes, bytes]

# Separates the properties of messages that are read together: a property whose name no other has.
_SEPARATOR_NAME: Final = b"\x03"
_SEPARATOR: Final = b"\x02" + _SEPARATOR_NAME + b"\x01\x02"
_UNUSUAL: Final = 8


class PlainProperties:
    """Reads plain properties: no name begins, in its first four bytes, like one of `unusual`.

    One regular expression finds the few properties that matter. It begins with a constant byte, which makes the search
    several times as fast as one that also matches at the beginning; so the byte is put before the properties.
    """

    def __init__(self, unusual: Iterable[bytes]) -> None:
        # An unusual property has empty groups. WAIT is unusual only if the sender does not wait.
        plain = rb"(UNIQ_KEY|KEYS|TAGS|\x03)\x01([^\x02]*)"
        others = [rb"WAIT\x01false(?![^\x02])", *sorted({re.escape(name[:4]) for name in unusual})]
        pattern = rb"\x02(?:" + b"|".join([plain, *others]) + rb")"
        self._find = re.compile(pattern).findall

    def read(self, data: bytes) -> FoundProperties | None:
        """Return unique key, keys and tag; None if the properties are not plain and must be parsed."""
        found = self._find(b"\x02" + data)
        values = dict(found)
        unique_key = values.get(b"UNIQ_KEY")
        # A name that occurs twice is not plain, either.
        if not unique_key or len(values) < len(found) or b"" in values:
            return None
        return unique_key, values.get(b"KEYS", b""), values.get(b"TAGS", b"")

    def read_all(self, properties: Sequence[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """Return unique keys, keys and tags of many messages; where `read` would return None, the unique key is empty.

        One search through all properties is faster than one for each.
        """
        text = _SEPARATOR.join([b"", *properties, b""])
        if text.count(_SEPARATOR_NAME) > len(properties) + 1:
            return _columns([self.read(data) for data in properties])
        unique_keys: list[bytes] = []
        all_keys: list[bytes] = []
        tags: list[bytes] = []
        unique_key = keys = tag = b""
        # Three bits for the properties found, and a fourth if they are not plain.
        seen = 0
        for name, value in islice(self._find(text), 1, None):
            if name == _SEPARATOR_NAME:
                unique_keys.append(unique_key if seen < _UNUSUAL else b"")
                all_keys.append(keys)
                tags.append(tag)
                unique_key = keys = tag = b""
                seen = 0
            elif name == b"UNIQ_KEY":
                seen |= _UNUSUAL if seen & 1 else 1
                unique_key = value
            elif name == b"KEYS":
                seen |= _UNUSUAL if seen & 2 else 2
                keys = value
            elif name == b"TAGS":
                seen |= _UNUSUAL if seen & 4 else 4
                tag = value
            else:
                seen |= _UNUSUAL
        return unique_keys, all_keys, tags

    def read_part(self, data: bytes) -> FoundProperties | None:
        """Like `read`, for a message of a batch, which need not have a unique key."""
        found = self._find(b"\x02" + data)
        values = dict(found)
        if len(values) < len(found) or b"" in values:
            return None
        return values.get(b"UNIQ_KEY", b""), values.get(b"KEYS", b""), values.get(b"TAGS", b"")


def _columns(found: Sequence[FoundProperties | None]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    unique_keys, keys, tags = zip(*(read or (b"", b"", b"") for read in found), strict=True)
    return list(unique_keys), list(keys), list(tags)
