"""Templates of binary headers: decodes a header whose fields have the names and order of an earlier one.

A template is a regular expression, learnt from a decoded header, that cuts a header at three values, which differ from
request to request. The bytes before, between and after them repeat: a producer has one group, few topics and the same
settings. They lead to a decoded request, which is copied with the three values replaced.
"""

import re
import struct
from collections.abc import Callable, Iterator
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
# Code and language.
_KEY_SIZE: Final = 3
_read_size = struct.Struct(">i").unpack_from
_read_name_size = struct.Struct(">h").unpack_from
_pack_sizes = struct.Struct(">iiii").pack

# Numbers with this many digits fit into 32 and 64 bits. They have no leading zeros.
_INT32, _INT64 = rb"(0|[1-9]\d{0,8})", rb"(0|[1-9]\d{0,17})"
# Texts with a zero byte are left to the general decoder: a zero byte ends a value here.
_TEXT = rb"([^\0]+)"

# The three varying fields by their names on the wire.
_SENDING = {"e": ("queue_id", _INT32), "g": ("born_timestamp", _INT64), "i": ("properties", _TEXT)}
_PULLING = {
    "queueId": ("queue_id", _INT32),
    "queueOffset": ("queue_offset", _INT64),
    "commitOffset": ("commit_offset", _INT64),
}
_VARYING: dict[type, dict[str, tuple[str, bytes]]] = {
    h.SendMessageV2: _SENDING,
    h.SendBatchMessage: _SENDING,
    h.PullMessage: _PULLING,
}
# Undeclared fields that Java's clients add to any request. Others, such as a signature, may change every time.
_UNDECLARED = {"bname", "ns", "nsd", "oway", "ReqT"}

# Regular expressions per code and language: clients of one language and release write the same fields.
_VARIANTS_MAX = 4
_KEYS_MAX = 64
# This many requests pass before another regular expression is compiled, which takes 0.5 ms. The number doubles each
# time, up to the maximum, so that no client can keep the server busy with it.
_WAIT_COUNT_MIN, _WAIT_COUNT_MAX = 16, 4096
# Decoded requests that are remembered, and the size of the bytes that lead to one.
_REQUESTS_MAX = 4096
_CONSTANT_SIZE_MAX = 1024

# (code, language, version, opaque, flag, request)
Known: TypeAlias = tuple[int, str | int | None, int, int, int, Request[Any]]


class _Template(NamedTuple):
    match: Callable[[bytes], re.Match[bytes] | None]
    names: tuple[str, str, str]
    # Whether each of the varying values is a number.
    are_numbers: tuple[bool, bool, bool]
    language: str | int | None
    flag: int
    # By the constant bytes.
    requests: dict[bytes, Request[Any]]


class HeaderTemplates:
    """The templates of a router."""

    def __init__(self) -> None:
        # By code and language.
        self._templates: dict[bytes, tuple[_Template, ...]] = {}
        self._request_count = 0
        # The number of requests before the next regular expression may be compiled, and that after it.
        self._wait_count, self._next_wait_count = 0, _WAIT_COUNT_MIN

    def read(self, header: bytes) -> Known | None:
        """Return the decoded header if a template matches it, else None."""
        for match, names, are_numbers, language, flag, requests in self._templates.get(header[:_KEY_SIZE], ()):
            found = match(header)
            if found is None:
                continue
            fixed, before, size, first, between, size_2, second, between_2, size_3, third, after = found.groups()
            request = requests.get(before + between + between_2 + after)
            declared = fixed[-4:] + size + size_2 + size_3
            if request is None or declared != _pack_sizes(
                len(header) - FIXED_SIZE, len(first), len(second), len(third)
            ):
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
            version, opaque = _VERSION_AND_OPAQUE.unpack_from(header, _KEY_SIZE)
            return request.code, language, version, opaque, flag, typed
        return None

    def learn(self, header: bytes, request: Request[Any], language: str | int | None) -> None:
        """Learn from a decoded header, so that `read` decodes others like it."""
        varying = _VARYING.get(type(request))
        if varying is None:
            return
        self._wait_count -= 1
        fields = usual_fields(header, request)
        if fields is None or not varying.keys() <= fields.keys():
            return
        template = self._template_of(header, fields, varying, language)
        found = None if template is None else template.match(header)
        if template is None or found is None:
            return
        _, before, _, _, between, _, _, between_2, _, _, after = found.groups()
        constant = before + between + between_2 + after
        if len(constant) > _CONSTANT_SIZE_MAX:
            return
        if self._request_count >= _REQUESTS_MAX:
            self._request_count = 0
            for variants in self._templates.values():
                for variant in variants:
                    variant.requests.clear()
        self._request_count += 1
        blank = {
            name: 0 if is_number else "" for name, is_number in zip(template.names, template.are_numbers, strict=True)
        }
        template.requests[constant] = replace(request, **blank)

    def _template_of(
        self,
        header: bytes,
        fields: dict[str, tuple[int, int]],
        varying: dict[str, tuple[str, bytes]],
        language: str | int | None,
    ) -> _Template | None:
        """Return the template that matches a header, compiled if it is time to."""
        key = header[:_KEY_SIZE]
        variants = self._templates.get(key, ())
        template = next((variant for variant in variants if variant.match(header)), None)
        if template is not None or self._wait_count > 0:
            return template
        self._wait_count = self._next_wait_count
        self._next_wait_count = min(2 * self._next_wait_count, _WAIT_COUNT_MAX)
        template = _compile(header, fields, varying, language)
        if key not in self._templates and len(self._templates) >= _KEYS_MAX:
            self._templates.clear()
        self._templates[key] = (template, *variants)[:_VARIANTS_MAX]
        return template


_VERSION_AND_OPAQUE = struct.Struct(">hi")


def _compile(
    header: bytes, fields: dict[str, tuple[int, int]], varying: dict[str, tuple[str, bytes]], language: str | int | None
) -> _Template:
    """Compile the regular expression of headers that have these fields in this order.

    Its groups are the fixed part, and what is before, between and after the three values, each of which has a group for
    its size and one for itself.
    """
    flags_at, size_at = OPAQUE_SPAN[1], FIXED_SIZE - 4
    pattern = b"(" + re.escape(header[:_KEY_SIZE]) + rb".{6}" + re.escape(header[flags_at:size_at]) + rb".{4})("
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
    first, second, third = names
    number, number_2, number_3 = are_numbers
    (flag, _) = _FLAGS.unpack_from(header, flags_at)
    return _Template(
        match=re.compile(pattern + b")", re.DOTALL).fullmatch,
        names=(first, second, third),
        are_numbers=(number, number_2, number_3),
        language=language,
        flag=flag,
        requests={},
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
