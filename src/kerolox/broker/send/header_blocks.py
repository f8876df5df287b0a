"""Frames of sends that are decoded together."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from kerolox.remoting.connection import Connection
from kerolox.remoting.router import Incoming
from kerolox.wire.frames import Frame
from kerolox.wire.header_templates.columns import EqualHeaders

# From this many frames per loop iteration on, reading headers as columns pays.
FEW = 16


class HeaderBlock:
    """Frames that follow each other, and how many came from each connection."""

    __slots__ = ("bodies", "equal", "headers", "owners", "serializations")

    def __init__(self) -> None:
        self.serializations: list[int] = []
        self.headers: list[bytes] = []
        self.bodies: list[bytes] = []
        self.owners: list[tuple[Connection, int]] = []
        # Set by `read`.
        self.equal: EqualHeaders | None = None

    def __len__(self) -> int:
        return len(self.headers)

    def add(self, frames: Sequence[Frame], connection: Connection) -> None:
        serializations, headers, bodies = zip(*frames, strict=True)
        self.serializations += serializations
        self.headers += headers
        self.bodies += bodies
        self.owners.append((connection, len(headers)))

    def read(self) -> bool:
        """Read the headers as columns; False if they must be decoded one by one."""
        connection, _ = self.owners[0]
        self.equal = connection.read_equal(self.serializations, self.headers)
        return self.equal is not None

    def split(self) -> "list[HeaderBlock]":
        """Return a block for each of `owners`, read if this one is."""
        parts = []
        start = 0
        for connection, count in self.owners:
            part, span = HeaderBlock(), slice(start, start + count)
            part.serializations, part.headers = self.serializations[span], self.headers[span]
            part.bodies, part.owners = self.bodies[span], [(connection, count)]
            part.equal = None if self.equal is None else self.equal.part(span)
            parts.append(part)
            start += count
        return parts

    @property
    def origins(self) -> list[Connection]:
        """The connection of each frame."""
        return [connection for connection, count in self.owners for _ in range(count)]

    @property
    def frames(self) -> list[Frame]:
        return list(zip(self.serializations, self.headers, self.bodies, strict=True))

    def request(self, index: int, connection: Connection) -> Incoming[Any]:
        """Return a request that was read as columns, as if it had been decoded."""
        equal = self.equal
        assert equal is not None
        request: Incoming[Any] = equal.template.request
        header, opaque, body = equal.header(index), equal.opaques[index], self.bodies[index]
        return replace(request, opaque=opaque, origin=connection, body=body, header=header)
