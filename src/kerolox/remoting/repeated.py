"""Questions asked before: where all but the opaque is the same, so is the answer.

Clients ask the NameServer for the same routes all day. A header that differs from one answered before only in its
opaque is not decoded again: the handler has said how to answer it, for as long as that holds (`Reply.again`).
"""

from collections.abc import Callable

from kerolox.wire.command import plain_answer

KNOWN_MAX = 16_384

_OPAQUE = b',"opaque":'
_OPAQUE_SIZE = len(_OPAQUE)


class RepeatedQuestions:
    """The headers answered before, without their opaques, and how to answer each."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Callable[[], bytes | None]] = {}

    def answer(self, header: bytes) -> bytes | None:
        """Returns the answer to a JSON header that was answered before, if it is still known."""
        start = header.find(_OPAQUE)
        end = header.find(b",", start + _OPAQUE_SIZE)
        again = self._known.get((header[:start], header[end:]))
        if again is None:
            return None
        opaque = header[start + _OPAQUE_SIZE : end]
        # Anything but a plain number that fits 31 bits is left to the decoder.
        if len(opaque) > 9 or not opaque.isdigit():
            return None
        body = again()
        return None if body is None else plain_answer(int(opaque), body)

    def remember(self, header: bytes, opaque: int, again: Callable[[], bytes | None]) -> None:
        """Notes how to answer a header, if it is certain which of its bytes are the opaque."""
        start = header.find(_OPAQUE)
        end = header.find(b",", start + _OPAQUE_SIZE)
        is_certain = (
            start > 0
            and end > 0
            and header[start + _OPAQUE_SIZE : end] == b"%d" % opaque
            and header.count(b"opaque") == 1
            and b"\\" not in header
        )
        if not is_certain:
            return
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[header[:start], header[end:]] = again
