"""Caches responses to requests that differ only in their opaque.

Clients ask the NameServer for the same routes all day. A header that equals an earlier one but for the opaque is not
decoded again, as long as the processor confirms that the response still holds (`Reply.again`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from kerolox.wire.command import OPAQUE_DIGITS_MAX, plain_answer_around
from kerolox.wire.frames import PREFIX

if TYPE_CHECKING:
    from kerolox.remoting.connection import Connection
    from kerolox.remoting.router import Incoming

KNOWN_MAX = 16_384
# Longer headers and responses are not cached; when the cache exceeds KNOWN_BYTES_MAX it is emptied.
HEADER_SIZE_MAX = 1024
BODY_SIZE_MAX = 16 * 1024
KNOWN_BYTES_MAX = 32 * 1024 * 1024
# Variants of one request by what follows its opaque, such as the client's version; one more replaces all of them.
VARIANTS_MAX = 8

_OPAQUE = b',"opaque":'
_OPAQUE_SIZE = len(_OPAQUE)
_ZERO = ord("0")
_unpack_prefix = PREFIX.unpack_from


class _Known(NamedTuple):
    """A cached response: what follows the opaque in the request, and what surrounds it in the response."""

    tail: bytes
    tail_size: int
    again: Callable[[], bytes | None]
    body: bytes
    # The bytes before the opaque in the response, by its number of digits, and those after it.
    befores: tuple[bytes, ...]
    after: bytes
    # The decoded request, for policies.
    request: "Incoming[Any]"


class ResponseCache:
    """`admits` decides for each cached response whether the connection may have it; None if there are no policies."""

    __slots__ = ("_admits", "_known", "_known_bytes")

    def __init__(self, admits: Callable[["Incoming[Any]", "Connection"], bool] | None = None) -> None:
        self._admits = admits
        self._known_bytes = 0
        # By what precedes the opaque in the request.
        self._known: dict[bytes, list[_Known]] = {}

    def answer(
        self, data: bytes, out: list[bytes | memoryview], connection: "Connection", *, size_max: int
    ) -> tuple[int, int]:
        """Respond to the frames at the beginning of `data`, up to the first that is not cached or not admitted.

        Appends the responses to `out`, not many more than `size_max` bytes of them, and returns the number of frames
        and where they end. One loop without calls of Python functions, because a NameServer does little else.
        """
        known, end, admits = self._known, len(data), self._admits
        count = start = size = 0
        while end - start > 8 and size < size_max:
            length, mark = _unpack_prefix(data, start)
            header, stop = start + 8, start + 4 + length
            # Only complete frames with a JSON header and no body.
            if stop > end or mark != length - 4:
                break
            at = data.find(_OPAQUE, header, stop)
            variants = known.get(data[header:at])
            if variants is None:
                break
            for variant in variants:
                if data.endswith(variant[0], header, stop):
                    break
            else:
                break
            _, tail_size, again, body, befores, after, request = variant
            opaque = data[at + _OPAQUE_SIZE : stop - tail_size]
            digits = len(opaque)
            # Leave anything but a plain number of 31 bits to the decoder.
            if not opaque.isdigit() or digits > OPAQUE_DIGITS_MAX or (opaque[0] == _ZERO and digits > 1):
                break
            if again() is not body:
                break
            if admits is not None and not admits(request, connection):
                break
            answer = befores[digits] + opaque + after
            out.append(answer)
            size += len(answer)
            count += 1
            start = stop
        return count, start

    def remember(self, header: bytes, request: "Incoming[Any]", body: bytes, again: Callable[[], bytes | None]) -> None:
        """Cache the response to a header, if it is certain which of its bytes are the opaque."""
        if len(header) > HEADER_SIZE_MAX or len(body) > BODY_SIZE_MAX:
            return
        start = header.find(_OPAQUE)
        end = header.find(b",", start + _OPAQUE_SIZE)
        head, tail = header[:start], header[end:]
        variants = self._known.get(head, [])
        if any(known.tail == tail and known.body is body for known in variants):
            return
        is_certain = (
            start > 0
            and end > 0
            and header[start + _OPAQUE_SIZE : end] == b"%d" % request.opaque
            and header.count(b"opaque") == 1
            and b"\\" not in header
        )
        if not is_certain:
            return
        # Replaced entries stay counted, so at worst the cache is emptied earlier than necessary.
        self._known_bytes += len(header) + 2 * len(body) + 1024
        if len(self._known) >= KNOWN_MAX or self._known_bytes > KNOWN_BYTES_MAX:
            self._known.clear()
            self._known_bytes = 0
            variants = []
        others = [known for known in variants if known.tail != tail]
        if len(others) >= VARIANTS_MAX:
            others.clear()
        befores, after = plain_answer_around(body)
        request = replace(request, body=b"", origin=None)
        self._known[head] = [_Known(tail, len(tail), again, body, befores, after, request), *others]
