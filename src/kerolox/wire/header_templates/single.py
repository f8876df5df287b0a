"""Reads one binary header whose fields have the names and order of an earlier one.

A regular expression cuts a header at three values, which differ from request to request. The bytes before, between and
after them repeat: a producer has one group, few topics and the same settings. They lead to a decoded request, which is
copied with the three values replaced.
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from kerolox.wire.header import Request
from kerolox.wire.headers import messages as h

# Code, language and version; opaque; flag and size of the remark; size of the fields.
_FIXED = struct.Struct(">5si8si")
FIXED_SIZE = _FIXED.size
_FLAGS = struct.Struct(">ii")
# Start and end of the opaque.
OPAQUE_SPAN = (5, 9)
CODE_SIZE: Final = 2
_LANGUAGE_END: Final = 3
_read_size = struct.Struct(">i").unpack_from
_read_name_size = struct.Struct(">h").unpack_from
_read_version_and_opaque = struct.Struct(">hi").unpack_from
_pack_sizes = struct.Struct(">iiii").pack

# Numbers with this many digits fit into 32 and 64 bits. They have no leading zeros.
_INT32, _INT64 = rb"(0|[1-9]\d{0,8})", rb"(0|[1-9]\d{0,17})"
# Texts with a zero byte are left to the general decoder: a zero byte ends a value here.
_TEXT = rb"([^\0]+)"

_SENDING = {"e": ("queue_id", _INT32), "g": ("born_timestamp", _INT64), "i": ("properties", _TEXT)}
_PULLING = {
    "queueId": ("queue_id", _INT32),
    "queueOffset": ("queue_offset", _INT64),
    "commitOffset": ("commit_offset", _INT64),
}
# The three varying fields of a request, by their names on the wire.
VARYING: dict[type, dict[str, tuple[str, bytes]]] = {
    h.SendMessageV2: _SENDING,
    h.SendBatchMessage: _SENDING,
    h.PullMessage: _PULLING,
}
# Undeclared fields that Java's clients add to any request. Others, such as a signature, may change every time.
_UNDECLARED = {"bname", "ns", "nsd", "oway", "ReqT"}

# (code, language, version, opaque, flag, request)
Known: TypeAlias = tuple[int, str | int | None, int, int, int, Request[Any]]
# Start and end of a value.
Span: TypeAlias = tuple[int, int]


class SingleTemplate(NamedTuple):
    match: Callable[[bytes], re.Match[bytes] | None]
    names: tuple[str, str, str]
    # Whether each of the varying values is a number.
    are_numbers: tuple[bool, bool, bool]
    language: str | int | None
    flag: int

    def read(self, header: bytes, requests: Mapping[bytes, Request[Any] | None]) -> Known | None:
        """Return a decoded header; None if it does not match, or its constant bytes are not among `requests`."""
        match, names, are_numbers, language, flag = self
        found = match(header)
        if found is None:
            return None
        size, before, size_1, first, between, size_2, second, between_2, size_3, third, after = found.groups()
        request = requests[before + between + between_2 + after]
        declared = size + size_1 + size_2 + size_3
        if request is None or declared != _pack_sizes(len(header) - FIXED_SIZE, len(first), len(second), len(third)):
            return None
        name, name_2, name_3 = names
        is_number, is_number_2, is_number_3 = are_numbers
        typed = replace(
            request,
            **{
                # Decoding raises UnicodeDecodeError, as in the general decoder.
                name: int(first) if is_number else first.decode(),
                name_2: int(second) if is_number_2 else second.decode(),
                name_3: int(third) if is_number_3 else third.decode(),
            },
        )
        version, opaque = _read_version_and_opaque(header, _LANGUAGE_END)
        return request.code, language, version, opaque, flag, typed

    def blank(self, header: bytes, request: Request[Any]) -> tuple[bytes, Request[Any]] | None:
        """Return the constant bytes of a header, and its request without the varying values; None if it differs."""
        found = self.match(header)
        if found is None:
            return None
        _, before, _, _, between, _, _, between_2, _, _, after = found.groups()
        values = {name: 0 if is_number else "" for name, is_number in zip(self.names, self.are_numbers, strict=True)}
        return before + between + between_2 + after, replace(request, **values)


def compile_single(
    header: bytes, request: Request[Any], fields: Mapping[str, Span], language: str | int | None
) -> SingleTemplate:
    """Compile the template of headers that have these fields (`usual_fields`) in this order.

    The groups of its regular expression are the size of all fields, and what is before, between and after the three
    values, each of which has a group for its size and one for itself.
    """
    varying = VARYING[type(request)]
    flags_at, size_at = OPAQUE_SPAN[1], FIXED_SIZE - 4
    pattern = re.escape(header[:_LANGUAGE_END]) + rb".{6}" + re.escape(header[flags_at:size_at]) + rb"(.{4})("
    names: list[str] = []
    are_numbers: list[bool] = []
    for name, (start, _) in fields.items():
        pattern += re.escape(header[start - 6 - len(name.encode()) : start - 4])
        if name in varying:
            field, value = varying[name]
            pattern += rb")(.{4})" + value + b"("
            names.append(field)
            are_numbers.append(value is not _TEXT)
        else:
            pattern += rb".{4}[^\0]+"
    match = re.compile(pattern + b")", re.DOTALL).fullmatch
    (flag, _) = _FLAGS.unpack_from(header, flags_at)
    first, second, third = names
    number, number_2, number_3 = are_numbers
    return SingleTemplate(match, (first, second, third), (number, number_2, number_3), language, flag)


def usual_fields(header: bytes, request: Request[Any], needed: Iterable[str]) -> dict[str, Span] | None:
    """Return start and end of the value of each field of a decoded header, by name.

    None if a needed field is missing, or the header has a remark, a duplicate field, or a field that neither `request`
    nor _UNDECLARED names.
    """
    _, _, flags, fields_size = _FIXED.unpack_from(header)
    if _FLAGS.unpack(flags)[1] or fields_size != len(header) - FIXED_SIZE:
        return None
    fields = list(_fields(header))
    places = {name: (start, end) for name, start, end in fields}
    is_usual = len(places) == len(fields) and places.keys() <= _UNDECLARED | set(request.__struct_encode_fields__)
    return places if is_usual and places.keys() >= set(needed) else None


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
