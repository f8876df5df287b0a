"""Templates of binary headers: decodes a header that differs from an earlier one only in three values.

A template is learnt from a decoded header. The bytes between the varying values, names and sizes included, must equal
those of the template; then the decoded request of the template is copied with the three values replaced.
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
# Start and end of the opaque.
OPAQUE_SPAN = (5, 9)
_read_size = struct.Struct(">i").unpack_from
_read_name_size = struct.Struct(">h").unpack_from

# Numbers with this many digits fit into 32 and 64 bits.
_INT32, _INT64 = 9, 18
_TEXT = 0

# The varying fields by their names on the wire: two numbers, followed by a third number or a text.
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
# Undeclared fields that Java's clients add to any request. Others, such as a signature, may change every time.
_UNDECLARED = {"bname", "ns", "nsd", "oway", "ReqT"}

# This many bytes before the first varying value tell most clients and topics apart.
_KEY_SIZE_MAX = 64
_KEY_SIZES_MAX = 8
_KEYS_MAX = 512
# Templates with the same key: their numbers have more or fewer digits.
_VARIANTS_MAX = 8
# A limit on the memory of a template; group and topic are usually far shorter.
_CONSTANT_SIZE_MAX = 1024

# (code, language, version, opaque, flag, request)
Known: TypeAlias = tuple[int, str | int | None, int, int, int, Request[Any]]


class _Template(NamedTuple):
    # Reads up to the size of the third value if that is text, else up to its end.
    unpack: Callable[[bytes], tuple[Any, ...]]
    unpacked_size: int
    # The constant bytes: of the fixed part, and before each value (its name, and the size of a number).
    constants: tuple[bytes, ...]
    names: tuple[str, ...]
    is_text_last: bool
    tail: bytes
    language: str | int | None
    version: int
    flag: int
    request: Request[Any]


class HeaderTemplates:
    """The templates of a router."""

    def __init__(self) -> None:
        self._templates: dict[bytes, tuple[_Template, ...]] = {}
        # The distinct key lengths; there are few.
        self._key_sizes: tuple[int, ...] = ()

    def read(self, header: bytes) -> Known | None:
        """Return the decoded header if a template matches it, else None."""
        for size in self._key_sizes:
            for template in self._templates.get(header[FIXED_SIZE : FIXED_SIZE + size], ()):
                known = _read(header, template)
                if known is not None:
                    return known
        return None

    def learn(self, header: bytes, request: Request[Any], language: str | int | None, version: int) -> None:
        """Learn a template from a decoded header."""
        if type(request) not in _VARYING:
            return
        template = _template(header, request, language, version)
        if template is None:
            return
        # Without the last byte, which belongs to the size of the value and may vary.
        key = template.constants[2][:-1][:_KEY_SIZE_MAX]
        is_new_size = len(key) not in self._key_sizes
        if len(self._templates) >= _KEYS_MAX or (is_new_size and len(self._key_sizes) >= _KEY_SIZES_MAX):
            self._templates.clear()
            self._key_sizes = ()
        if len(key) not in self._key_sizes:
            self._key_sizes += (len(key),)
        self._templates[key] = (template, *self._templates.get(key, ()))[:_VARIANTS_MAX]


def _read(header: bytes, template: _Template) -> Known | None:
    unpack, at, constants, names, is_text_last, tail, language, version, flag, request = template
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
        # Raises UnicodeDecodeError, as the general decoder does.
        third = header[start:at].decode()
    elif third.isdigit() and (third >= b"1" or third == b"0"):
        third = int(third)
    else:
        return None
    # Leave anything but a plain number to the general decoder.
    if not first.isdigit() or not second.isdigit() or header[at:] != tail:
        return None
    if (first < b"1" and first != b"0") or (second < b"1" and second != b"0"):
        return None
    name, name_2, name_3 = names
    typed = replace(request, **{name: int(first), name_2: int(second), name_3: third})
    return request.code, language, version, opaque, flag, typed


def _template(header: bytes, request: Request[Any], language: str | int | None, version: int) -> _Template | None:
    """Return a template of a decoded header; None if its layout is unusual."""
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
            # The text must come after the two numbers.
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
    return _Template(
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
    """Return start and end of the value of each field of a decoded header, by name.

    None if the header has a remark, a duplicate field, or a field that neither `request` nor _UNDECLARED names.
    """
    _, _, flags, fields_size = _FIXED.unpack_from(header)
    if _FLAGS.unpack(flags)[1] or fields_size != len(header) - FIXED_SIZE:
        return None
    fields = list(_fields(header))
    places = {name: (start, end) for name, start, end in fields}
    is_usual = len(places) == len(fields) and places.keys() <= _UNDECLARED | set(request.__struct_encode_fields__)
    return places if is_usual else None


def _fields(header: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of the value of each field of a decoded header."""
    at = FIXED_SIZE
    while at < len(header):
        (name_size,) = _read_name_size(header, at)
        start = at + 2 + name_size + 4
        (size,) = _read_size(header, start - 4)
        # A name with an empty value was never decoded, so it may not be valid UTF-8.
        yield header[at + 2 : start - 4].decode(errors="replace"), start, start + size
        at = start + size
