"""Fast reading of properties that do not change how a message is stored, as those of most messages."""

import re
from collections.abc import Iterable
from typing import TypeAlias

# Unique key, keys and tag; the last two are empty if there are none.
FoundProperties: TypeAlias = tuple[bytes, bytes, bytes]


class PlainProperties:
    """Reads plain properties: no name begins, in its first four bytes, like one of `unusual`.

    One regular expression finds the few properties that matter. It begins with a constant byte, which makes the search
    several times as fast as one that also matches at the beginning; so the byte is put before the properties.
    """

    def __init__(self, unusual: Iterable[bytes]) -> None:
        # An unusual property has empty groups. WAIT is unusual only if the sender does not wait.
        plain = rb"(UNIQ_KEY|KEYS|TAGS)\x01([^\x02]*)"
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

    def read_part(self, data: bytes) -> FoundProperties | None:
        """Like `read`, for a message of a batch, which need not have a unique key."""
        found = self._find(b"\x02" + data)
        values = dict(found)
        if len(values) < len(found) or b"" in values:
            return None
        return values.get(b"UNIQ_KEY", b""), values.get(b"KEYS", b""), values.get(b"TAGS", b"")
