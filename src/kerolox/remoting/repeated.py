"""Questions asked before: where all but the opaque is the same, so is the answer.

Clients ask the NameServer for the same routes all day. A header that differs from one answered before only in its
opaque is not decoded again: the handler has said how to answer it, for as long as that holds (`Reply.again`).
"""

from collections.abc import Callable
from typing import NamedTuple

from kerolox.wire.command import OPAQUE_DIGITS_MAX, plain_answer_around
from kerolox.wire.frames import PREFIX

KNOWN_MAX = 16_384
# Longer questions and answers are not worth remembering, nor is more than this of them all.
HEADER_SIZE_MAX = 1024
BODY_SIZE_MAX = 16 * 1024
KNOWN_BYTES_MAX = 32 * 1024 * 1024
# Clients of so many versions may ask the same; the next takes the place of all of them.
VARIANTS_MAX = 8

_OPAQUE = b',"opaque":'
_OPAQUE_SIZE = len(_OPAQUE)
_ZERO = ord("0")
_unpack_prefix = PREFIX.unpack_from


class _Known(NamedTuple):
    """What follows the opaque in the question, and what stands around it in the answer."""

    tail: bytes
    tail_size: int
    again: Callable[[], bytes | None]
    body: bytes
    # What precedes an opaque of so many digits, and what follows any.
    befores: tuple[bytes, ...]
    after: bytes


class RepeatedQuestions:
    """The headers answered before, without their opaques, and how to answer each."""

    __slots__ = ("_known", "_known_bytes")

    def __init__(self) -> None:
        self._known_bytes = 0
        # By what precedes the opaque.
        self._known: dict[bytes, list[_Known]] = {}

    def answer(self, data: bytes, out: list[bytes | memoryview], *, size_max: int) -> tuple[int, int]:
        """Answers the frames at the beginning of `data` for as long as they were all asked before.

        Puts the answers into `out`, not many more than `size_max` bytes of them, and returns how many frames that
        were and where they end. One loop without a call into Python: this is what a NameServer does all day.
        """
        known, end = self._known, len(data)
        count = start = size = 0
        while end - start > 8 and size < size_max:
            length, mark = _unpack_prefix(data, start)
            header, stop = start + 8, start + 4 + length
            # A header in JSON that takes up all of the frame, and all of the frame is here.
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
            _, tail_size, again, body, befores, after = variant
            opaque = data[at + _OPAQUE_SIZE : stop - tail_size]
            digits = len(opaque)
            # Anything but a plain number that fits 31 bits is left to the decoder.
            if not opaque.isdigit() or digits > OPAQUE_DIGITS_MAX or (opaque[0] == _ZERO and digits > 1):
                break
            if again() is not body:
                break
            answer = befores[digits] + opaque + after
            out.append(answer)
            size += len(answer)
            count += 1
            start = stop
        return count, start

    def remember(self, header: bytes, opaque: int, body: bytes, again: Callable[[], bytes | None]) -> None:
        """Notes how to answer a header, if it is certain which of its bytes are the opaque."""
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
            and header[start + _OPAQUE_SIZE : end] == b"%d" % opaque
            and header.count(b"opaque") == 1
            and b"\\" not in header
        )
        if not is_certain:
            return
        # What is replaced is still counted, so that at worst all is forgotten earlier than it need be.
        self._known_bytes += len(header) + 2 * len(body) + 1024
        if len(self._known) >= KNOWN_MAX or self._known_bytes > KNOWN_BYTES_MAX:
            self._known.clear()
            self._known_bytes = 0
            variants = []
        others = [known for known in variants if known.tail != tail]
        if len(others) >= VARIANTS_MAX:
            others.clear()
        befores, after = plain_answer_around(body)
        self._known[head] = [_Known(tail, len(tail), again, body, befores, after), *others]
