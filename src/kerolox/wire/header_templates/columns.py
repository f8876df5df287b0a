"""Reads many headers of sends as columns, if they differ only in opaque, queue id, born timestamp and unique key.

A template is learnt from a decoded header. The bytes between the four values must equal those of the template, so
they have the same meaning, and only the four values are parsed.
"""

import functools
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kerolox.message import property_names
from kerolox.message.properties import find, mark
from kerolox.wire.command import JSON
from kerolox.wire.header_templates.single import FIXED_SIZE, OPAQUE_SPAN, Span, usual_fields
from kerolox.wire.headers import messages as h

Sending = h.SendMessage | h.SendMessageV2

# Numbers with this many digits fit into 32 and 64 bits.
_INT32_DIGITS, _INT64_DIGITS = 9, 18
_UNIQ_KEY = mark(property_names.UNIQ_KEY)
_ESCAPED_UNIQ_KEY = _UNIQ_KEY.replace(b"\x01", b"\\u0001")


class EqualHeaders(NamedTuple):
    """Headers that a template has read: the four varying values, a column each, with an entry per header."""

    template: "HeaderColumns"
    opaques: Sequence[int]
    queue_ids: Sequence[int]
    born_timestamps: Sequence[int]
    unique_keys: Sequence[bytes]

    def part(self, span: slice) -> "EqualHeaders":
        template, opaques, queue_ids, born_timestamps, unique_keys = self
        return EqualHeaders(template, opaques[span], queue_ids[span], born_timestamps[span], unique_keys[span])

    def properties(self, index: int) -> bytes:
        return self.template.before + self.unique_keys[index] + self.template.after

    def header(self, index: int) -> Sending:
        """Return one of the headers, as if it had been decoded."""
        return replace(
            self.template.sending,
            queue_id=self.queue_ids[index],
            born_timestamp=self.born_timestamps[index],
            properties=self.properties(index).decode("utf-8", "surrogateescape"),
        )


class HeaderColumns:
    """A template of the headers of one producer."""

    def __init__(self, header: bytes, request: Any, properties: bytes, spans: Sequence[Span]) -> None:
        self.request = request
        self.sending: Sending = request.header
        self.serialization = request.serialization
        # How often headers of this size did not match since others did.
        self.miss_count = 0
        self._size = len(header)
        at = properties.find(_UNIQ_KEY) + len(_UNIQ_KEY)
        key_start, key_end = spans[3]
        # The properties around the unique key.
        self.before, self.after = properties[:at], properties[at + key_end - key_start :]
        self._is_json = request.serialization == JSON
        ordered = sorted(spans)
        # The constant bytes before the first varying value (the opaque of a binary header aside).
        self.beginning = header[FIXED_SIZE : next(start for start, _ in ordered if start > OPAQUE_SPAN[0])]
        # The position of opaque, queue id, born timestamp and unique key among the values.
        self._places = [ordered.index(span) for span in spans]
        self._constants: list[bytes] = []
        layout, at = ">", 0
        for start, end in ordered:
            self._constants.append(header[at:start])
            is_number = not self._is_json and (start, end) == OPAQUE_SPAN
            layout += f"{start - at}s" + ("i" if is_number else f"{end - start}s")
            at = end
        self._constants.append(header[at:])
        self._rows = struct.Struct(f"{layout}{self._size - at}s").iter_unpack

    def read(self, serializations: Sequence[int], headers: Sequence[bytes]) -> EqualHeaders | None:
        """Return the columns of headers; None if one differs from the template or a value is malformed."""
        count = len(headers)
        if serializations.count(self.serialization) < count or list(map(len, headers)).count(self._size) < count:
            return None
        equal = self._columns(headers)
        self.miss_count = 0 if equal is not None else self.miss_count + 1
        return equal

    def _columns(self, headers: Sequence[bytes]) -> EqualHeaders | None:
        count = len(headers)
        pieces = list(chain.from_iterable(self._rows(b"".join(headers))))
        for number, constant in enumerate(self._constants):
            if pieces[2 * number :: 9].count(constant) < count:
                return None
        opaques, queue_ids, born_timestamps, keys = (pieces[2 * place + 1 :: 9] for place in self._places)
        numbers = (opaques, queue_ids, born_timestamps) if self._is_json else (queue_ids, born_timestamps)
        if not all(map(_are_numbers, numbers)) or not b"".join(keys).isalnum():
            return None
        return EqualHeaders(
            self,
            list(map(int, opaques)) if self._is_json else opaques,
            list(map(int, queue_ids)),
            list(map(int, born_timestamps)),
            keys,
        )


def _are_numbers(texts: list[bytes]) -> bool:
    """Whether all consist of digits, without leading zeros."""
    return b"".join(texts).isdigit() and (len(texts[0]) == 1 or min(texts) >= b"1")


def compile_columns(header: bytes, request: Any) -> HeaderColumns | None:
    """Learn a template from a decoded header; None if the spans of the values are ambiguous."""
    sending = request.header
    if not isinstance(sending, Sending):
        return None
    properties = (sending.properties or "").encode("utf-8", "surrogateescape")
    texts = [b"%d" % sending.queue_id, b"%d" % sending.born_timestamp, find(properties, _UNIQ_KEY)]
    is_usual = (
        texts[2].isalnum()
        and properties.count(_UNIQ_KEY) == 1
        and sending.queue_id >= 0
        and sending.born_timestamp >= 0
        and len(texts[0]) <= _INT32_DIGITS
        and len(texts[1]) <= _INT64_DIGITS
    )
    if not is_usual:
        return None
    fields = _varying_names(type(sending))
    if request.serialization == JSON:
        spans = _json_spans(header, request.opaque, fields, texts)
    else:
        spans = _binary_spans(header, sending, fields, texts)
    return None if spans is None else HeaderColumns(header, request, properties, spans)


@functools.cache
def _varying_names(header: type[Sending]) -> tuple[str, str, str]:
    """Return the names on the wire of queue id, born timestamp and properties."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(header)}
    return names["queue_id"], names["born_timestamp"], names["properties"]


def _json_spans(header: bytes, opaque: int, fields: Sequence[str], texts: list[bytes]) -> list[Span] | None:
    number = b"%d" % opaque
    # Without other escapes, and with each name exactly once, the spans are unambiguous.
    is_plain = header.count(b"\\") == header.count(b"\\u0001") + header.count(b"\\u0002")
    if not is_plain or not opaque >= 0 or len(number) > _INT32_DIGITS:
        return None
    queue, born = (b'"%b"' % name.encode() for name in fields[:2])
    wanted = [
        (b'"opaque"', b'"opaque":', number, b",}"),
        (queue, queue + b':"', texts[0], b'"'),
        (born, born + b':"', texts[1], b'"'),
        (_ESCAPED_UNIQ_KEY, _ESCAPED_UNIQ_KEY, texts[2], b'\\"'),
    ]
    spans = []
    for name, before, text, ends in wanted:
        at = header.find(before)
        start, end = at + len(before), at + len(before) + len(text)
        is_there = at >= 0 and header[start:end] == text and header[end : end + 1] in (ends[:1], ends[-1:])
        if not is_there or header.count(name) != 1:
            return None
        spans.append((start, end))
    return spans


def _binary_spans(header: bytes, sending: Sending, fields: Sequence[str], texts: list[bytes]) -> list[Span] | None:
    places = usual_fields(header, sending, fields)
    if places is None:
        return None
    spans = [OPAQUE_SPAN, *(places[name] for name in fields[:2])]
    start, end = places[fields[2]]
    start = header.find(_UNIQ_KEY, start, end) + len(_UNIQ_KEY)
    spans.append((start, start + len(texts[2])))
    return spans if [header[start:end] for start, end in spans[1:]] == texts else None
