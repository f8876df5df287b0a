"""Frames of sends that are decoded together, and templates that read their headers as columns.

A busy producer repeats its header, but for four values (`wire/header_columns.py`). Once such a request was decoded,
a template reads blocks of frames with the same header without decoding each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kerolox.remoting.connection import Connection
from kerolox.remoting.router import Incoming
from kerolox.wire.frames import Frame
from kerolox.wire.header_columns import HEADER_SIZE_MAX, Columns, HeaderColumns, learn_columns
from kerolox.wire.header_templates import FIXED_SIZE

# From this many frames per loop iteration on, reading headers as columns pays.
FEW = 16
# This many bytes of the beginning of a header tell producers and topics apart.
_KEY_SIZE_MIN, _KEY_SIZE_MAX = 16, 64
_KEY_SIZES_MAX = 8
_KNOWN_MAX = 512
# This many requests pass before another template is learnt. The number doubles with each template, up to the maximum,
# until one is used: traffic without equal headers must not pay for learning from each message.
_WAIT_COUNT_MIN, _WAIT_COUNT_MAX = 16, 4096


@dataclass(frozen=True, slots=True, eq=False)
class KnownHeader:
    """A template, and the request that it was learnt from."""

    template: HeaderColumns
    request: Incoming[Any]
    tag: bytes


class HeaderBlock:
    """Frames that follow each other, and how many came from each connection."""

    __slots__ = ("bodies", "columns", "headers", "known", "owners", "serializations")

    def __init__(self) -> None:
        self.serializations: list[int] = []
        self.headers: list[bytes] = []
        self.bodies: list[bytes] = []
        self.owners: list[tuple[Connection, int]] = []
        # Set by `read`.
        self.known: KnownHeader | None = None
        self.columns: Columns | None = None

    def __len__(self) -> int:
        return len(self.headers)

    def add(self, frames: Sequence[Frame], connection: Connection) -> None:
        serializations, headers, bodies = zip(*frames, strict=True)
        self.serializations += serializations
        self.headers += headers
        self.bodies += bodies
        self.owners.append((connection, len(headers)))

    def read(self, known: KnownHeader) -> bool:
        """Read the headers with a template; False if one of them does not match."""
        self.known, self.columns = known, known.template.columns(self.headers)
        return self.columns is not None

    def split(self) -> "list[HeaderBlock]":
        """Return a block for each of `owners`, read if this one is."""
        parts = []
        start = 0
        for connection, count in self.owners:
            part, span = HeaderBlock(), slice(start, start + count)
            part.serializations, part.headers = self.serializations[span], self.headers[span]
            part.bodies, part.owners = self.bodies[span], [(connection, count)]
            if self.columns is not None:
                part.known, part.columns = self.known, self.columns.part(span)
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
        """Return a request that a template has read, as if it had been decoded."""
        assert self.known is not None
        assert self.columns is not None
        template, columns = self.known.template, self.columns
        properties = template.before + columns.unique_keys[index] + template.after
        header = replace(
            template.sending,
            queue_id=columns.queue_ids[index],
            born_timestamp=columns.born_timestamps[index],
            properties=properties.decode("utf-8", "surrogateescape"),
        )
        opaque, body = columns.opaques[index], self.bodies[index]
        return replace(self.known.request, opaque=opaque, origin=connection, body=body, header=header)


class HeaderBlocks:
    def __init__(self) -> None:
        # Templates by header size and beginning.
        self._known: dict[tuple[int, bytes], KnownHeader] = {}
        self._key_sizes: tuple[int, ...] = ()
        # The number of requests before the next template may be learnt, and that after it.
        self._wait_count, self._next_wait_count = 0, _WAIT_COUNT_MIN

    def find(self, block: HeaderBlock) -> KnownHeader | None:
        """Return the template that may match all frames of a block; None if there is none."""
        headers = block.headers
        count, header = len(headers), headers[0]
        size = len(header)
        for key_size in self._key_sizes:
            known = self._known.get((size, header[FIXED_SIZE : FIXED_SIZE + key_size]))
            if known is not None:
                is_one_serialization = block.serializations.count(known.template.serialization) == count
                return known if is_one_serialization and list(map(len, headers)).count(size) == count else None
        return None

    def is_learning(self, block: HeaderBlock) -> bool:
        """Whether to learn a template from the first frame of a block that no template matches."""
        self._wait_count -= len(block)
        if self._wait_count > 0 or len(block.headers[0]) > HEADER_SIZE_MAX:
            return False
        self._wait_count = self._next_wait_count
        self._next_wait_count = min(2 * self._next_wait_count, _WAIT_COUNT_MAX)
        return True

    def learn(self, header: bytes, request: Incoming[Any], unique_key: bytes, tag: bytes) -> None:
        """Learn a template from the header of a plain send without keys, and its request."""
        learnt = learn_columns(request.serialization, header, request.opaque, request.header, unique_key)
        if learnt is not None and len(learnt.beginning) >= _KEY_SIZE_MIN:
            key = learnt.beginning[:_KEY_SIZE_MAX]
            is_new_size = len(key) not in self._key_sizes
            if len(self._known) >= _KNOWN_MAX or (is_new_size and len(self._key_sizes) >= _KEY_SIZES_MAX):
                self._known, self._key_sizes = {}, ()
            if len(key) not in self._key_sizes:
                self._key_sizes += (len(key),)
            self._known[len(header), key] = KnownHeader(learnt, replace(request, body=b"", origin=None), tag)

    def note_used(self) -> None:
        """Note that a template matched, so that the next one may be learnt soon."""
        self._next_wait_count = _WAIT_COUNT_MIN

    def forget(self, known: KnownHeader) -> None:
        """Drop a template that did not match, and pause learning."""
        self._known = {key: value for key, value in self._known.items() if value is not known}
        self._wait_count = _WAIT_COUNT_MAX
