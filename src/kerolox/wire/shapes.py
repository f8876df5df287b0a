"""Requests with binary headers that are alike but for three values, as those of one client are: read by comparing.

A header is cut where the values stand that differ from request to request. What lies between them, names and sizes
included, is compared with what came before, and what it says is kept as it was converted then.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from kerolox.wire.header import Request
from kerolox.wire.headers import messages as h

# Code, language and version; opaque; flag and size of the remark; size of the fields.
_FIXED = struct.Struct(">5si8si")
FIXED_SIZE = _FIXED.size
_FLAGS = struct.Struct(">ii")
# Where the opaque begins and ends.
OPAQUE_SPAN = (5, 9)
_read_size = struct.Struct(">i").unpack_from
_read_name_size = struct.Struct(">h").unpack_from

# Numbers of so many digits fit into 32 and 64 bits.
_INT32, _INT64 = 9, 18
_TEXT = 0

# What differs, by names on the wire: two numbers, and after them one more, or a text.
_SENDING = {"e": ("queue_id", _INT32), "g": ("born_timestamp", _INT64), "i": ("properties", _TEXT)}
_PULLING = {
    "queueId": ("queue_id", _INT32),
    "queueOffset": ("queue_offset", _INT64),
    "commitOffset": ("commit_offset", _INT64),
}
_VARYING: dict[type, dict[str, tuple[str, int]]] = {
    h.SendMessageV2: _SENDING,
    h.SendBatchMessage: _SENDING,
    h.PullMessage: _PULLING,
}
# Java's clients add these to any request. What else no header declares may be another each time, as a signature.
_UNDECLARED = {"bname", "ns", "nsd", "oway", "ReqT"}

# So much of the fields, or what precedes the first value that varies, tells most clients and topics apart.
_KEY_SIZE_MAX = 64
_KEY_SIZES_MAX = 8
_KEYS_MAX = 512
# Of those that begin alike: their numbers are of more or fewer digits.
_VARIANTS_MAX = 8
# What is remembered of one, so that nobody can fill the memory; a group and a topic are far shorter.
_CONSTANT_SIZE_MAX = 1024

# Code, language, version, opaque, flag and fields.
Known: TypeAlias = tuple[int, str | int | None, int, int, int, Request[Any]]


class _Shape(NamedTuple):
    # Reads up to the third value if it is text, and its size; else up to the end of it.
    unpack: Callable[[bytes], tuple[Any, ...]]
    unpacked_size: int
    # Of the fixed part, and what precedes each value: its name, and its size if it is a number.
    constants: tuple[bytes, ...]
    names: tuple[str, ...]
    is_text_last: bool
    tail: bytes
    language: str | int | None
    version: int
    flag: int
    request: Request[Any]


class Shapes:
    """What the requests of clients have in common."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, tuple[_Shape, ...]] = {}
        # How long their keys are, of which there are few.
        self._key_sizes: tuple[int, ...] = ()

    def read(self, header: bytes) -> Known | None:
        """Returns what a header says that is like one that was learnt; None if there was none."""
        for size in self._key_sizes:
            for shape in self._shapes.get(header[FIXED_SIZE : FIXED_SIZE + size], ()):
                known = _read(header, shape)
                if known is not None:
                    return known
        return None

    def learn(self, header: bytes, request: Request[Any], language: str | int | None, version: int) -> None:
        """Remembers a header that has been read, with what it was found to say."""
        if type(request) not in _VARYING:
            return
        shape = _shape(header, request, language, version)
        if shape is None:
            return
        # Without the last byte of the value's size, which may differ.
        key = shape.constants[2][:-1][:_KEY_SIZE_MAX]
        is_new_size = len(key) not in self._key_sizes
        if len(self._shapes) >= _KEYS_MAX or (is_new_size and len(self._key_sizes) >= _KEY_SIZES_MAX):
            self._shapes.clear()
            self._key_sizes = ()
        if len(key) not in self._key_sizes:
            self._key_sizes += (len(key),)
        self._shapes[key] = (shape, *self._shapes.get(key, ()))[:_VARIANTS_MAX]


def _read(header: bytes, shape: _Shape) -> Known | None:
    unpack, at, constants, names, is_text_last, tail, language, version, flag, request = shape
    end = len(header)
    if end < at:
        return None
    beginning, opaque, flags, fields_size, block, first, block_2, second, block_3, third = unpack(header)
    if (beginning, flags, block, block_2, block_3) != constants or fields_size != end - FIXED_SIZE:
        return None
    if is_text_last:
        start, at = at, at + third
        if third <= 0 or at > end:
            return None
        # What is not UTF-8 is refused as it is elsewhere.
        third = header[start:at].decode()
    elif third.isdigit() and (third >= b"1" or third == b"0"):
        third = int(third)
    else:
        return None
    # Anything but a plain number is left to the decoder.
    if not first.isdigit() or not second.isdigit() or header[at:] != tail:
        return None
    if (first < b"1" and first != b"0") or (second < b"1" and second != b"0"):
        return None
    name, name_2, name_3 = names
    typed = replace(request, **{name: int(first), name_2: int(second), name_3: third})
    return request.code, language, version, opaque, flag, typed


def _shape(header: bytes, request: Request[Any], language: str | int | None, version: int) -> _Shape | None:
    """Returns what is to be remembered of a header; None if it is unusual, and nothing should be."""
    varying = _VARYING[type(request)]
    beginning, _, flags, _ = _FIXED.unpack_from(header)
    flag, _ = _FLAGS.unpack(flags)
    fields = usual_fields(header, request)
    if fields is None or not varying.keys() <= fields.keys():
        return None
    layout, constants, at = _FIXED.format, [beginning, flags], FIXED_SIZE
    values: dict[str, int | str] = {}
    for name, (start, end) in fields.items():
        if name in varying:
            field, digits_max = varying[name]
            # Text comes last.
            if end - start > digits_max if digits_max else len(values) < 2:
                return None
            constants.append(header[at : start if digits_max else start - 4])
            layout += f"{len(constants[-1])}s" + (f"{end - start}s" if digits_max else "i")
            values[field] = 0 if digits_max else ""
            at = end
    tail = header[at:]
    if sum(map(len, constants)) + len(tail) > _CONSTANT_SIZE_MAX:
        return None
    unpacking = struct.Struct(layout)
    return _Shape(
        unpack=unpacking.unpack_from,
        unpacked_size=unpacking.size,
        constants=tuple(constants),
        names=tuple(values),
        is_text_last="" in values.values(),
        tail=tail,
        language=language,
        version=version,
        flag=flag,
        request=replace(request, **values),
    )


def usual_fields(header: bytes, request: Request[Any]) -> dict[str, tuple[int, int]] | None:
    """Returns where the value of each field of a header that has been read begins and ends, by its name.

    None if there is more than fields, one of them is there twice, or nobody knows what it is.
    """
    _, _, flags, fields_size = _FIXED.unpack_from(header)
    if _FLAGS.unpack(flags)[1] or fields_size != len(header) - FIXED_SIZE:
        return None
    fields = list(_fields(header))
    places = {name: (start, end) for name, start, end in fields}
    is_usual = len(places) == len(fields) and places.keys() <= _UNDECLARED | set(request.__struct_encode_fields__)
    return places if is_usual else None


def _fields(header: bytes) -> Iterator[tuple[str, int, int]]:
    """Yields the name of each field of a header that has been read, and where its value begins and ends."""
    at = FIXED_SIZE
    while at < len(header):
        (name_size,) = _read_name_size(header, at)
        start = at + 2 + name_size + 4
        (size,) = _read_size(header, start - 4)
        # A name without a value may be no text: nobody has read it.
        yield header[at + 2 : start - 4].decode(errors="replace"), start, start + size
        at = start + size
