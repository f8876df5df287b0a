"""Base class of JSON bodies: one annotated line per member, in JSON under Java's camelCase name."""

from typing import Self

import msgspec

from kerolox.runtime.text import fastjson
from kerolox.runtime.text.fastjson import Bounds

# The bounds that servers apply to request bodies.
REQUEST = Bounds()


class Body(msgspec.Struct, rename="camel"):
    """A JSON body. Members that are None are not encoded; unknown members are ignored."""

    @classmethod
    def decode(cls, data: bytes, bounds: Bounds | None = None) -> Self:
        """Return the decoded body, or raise ProtocolError. Servers pass `bounds` for request bodies."""
        return fastjson.decode(data, cls, bounds)

    def encode(self, *, strict: bool = False) -> bytes:
        return fastjson.encode(self, strict=strict)
