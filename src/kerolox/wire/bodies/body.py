"""How a JSON body is declared: a line for each member, under Java's name in camelCase."""

from typing import Self

import msgspec

from kerolox.runtime import fastjson


class Body(msgspec.Struct, rename="camel"):
    """An object that travels as JSON. Members that are None are not written; unknown ones are not read."""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Returns the body, or raises ProtocolError."""
        return fastjson.decode(data, cls)

    def encode(self, *, strict: bool = False) -> bytes:
        return fastjson.encode(self, strict=strict)
