"""Decodes a JSON registration in pieces, and the next one of the same broker only where it differs.

A broker repeats all its topics when one of them changes. A body is split into

    head     up to and including `"topicConfigTable":{`
    pieces   each a few complete entries: `"name":{...},"name":{...},`
    tail     the last entry and the rest of the document

A piece is decoded as an object of its own. Head and tail are decoded together, with a marker entry where the pieces
were. The boundaries are guesses, but the result is exact: a piece that decodes consists of complete entries, and the
marker is found in the topic table only if complete entries of that table belong in its place. So the pieces of the
last registration need not be decoded again where the next one repeats them byte for byte.

Every function returns None for a body that is not regular: formatted differently, with a name twice, with a key that
is not the name of its topic, or with much text outside the pieces. Such a body must be decoded as a whole.
"""

import re
import secrets
from collections.abc import Container, Iterator
from typing import NamedTuple

import msgspec

from kerolox.runtime.cooperative import Steps
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.registration import RegisterBrokerBody
from kerolox.wire.bodies.topics import TopicConfig

# The text that differs, and head and tail, are decoded in one step.
_CHANGED_SIZE_MAX = 64 * 1024
# Pieces are kept in memory: at most this much for a registration, and at most this much for a topic.
_KEPT_SIZE_MAX = 4 * 1024 * 1024
_TOPIC_SIZE_MAX = 1024
_PIECE_SIZE_MIN = 2 * 1024
_PIECES_PER_STEP = 128

_TABLE = b'"topicConfigTable":{'
_ENTRY_START = re.compile(rb'(?<=\},)"[^"\\]*":\{')
# Random, so that no broker can send it.
_MARKER = secrets.token_hex(16)
_MARKER_ENTRY = b'"%b":{"topicName":"%b"}' % (_MARKER.encode(), _MARKER.encode())

_body_decoder = msgspec.json.Decoder(RegisterBrokerBody, strict=False)
_entries_decoder = msgspec.json.Decoder(dict[str, TopicConfig], strict=False)


class TopicPieces(NamedTuple):
    """The text of a registration's topics, and the names of the topics that are outside the pieces."""

    pieces: list[bytes]
    other_names: frozenset[str]


class DecodedRegistration(NamedTuple):
    """A registration, and its pieces if they are to be kept."""

    body: RegisterBrokerBody
    pieces: TopicPieces | None = None


def decoding_pieces(data: bytes) -> Steps[DecodedRegistration | None]:
    """Decode a whole registration in steps."""
    start = _table_start(data)
    if start is None:
        return None
    builder = _Builder(data, start)
    for end in _piece_ends(data, start, len(data)):
        # The text beyond the end of the table looks alike, but is not a piece.
        if not builder.add_until(end):
            break
        if len(builder.pieces) % _PIECES_PER_STEP == 0:
            yield
    return builder.decoded()


def decode_changes(data: bytes, previous: TopicPieces, known: Container[str]) -> DecodedRegistration | None:
    """Decode a registration without most of the topics that it has in common with the previous one.

    `known` contains all topics of the previous registration, and perhaps more.
    """
    start = _table_start(data)
    if start is None:
        return None
    builder = _Builder(data, start)
    replaced = set(previous.other_names)
    size_left = _CHANGED_SIZE_MAX
    for piece in previous.pieces:
        position = builder.position
        if data.startswith(piece, position):
            builder.skip(piece)
            continue
        found = data.find(piece, position, position + len(piece) + size_left)
        if found < 0:
            size_left -= len(piece)
            replaced.update(_entries(piece) or ())
        else:
            size_left -= found - position
            if not all(map(builder.add_until, (*_piece_ends(data, position, found), found))):
                return None
            builder.skip(piece)
        if size_left < 0:
            return None
    if len(data) - builder.position > size_left:
        return None
    for end in _piece_ends(data, builder.position, len(data)):
        if not builder.add_until(end):
            break
    # Topics that are added between two pieces make pieces of their own. If those are many, cut the text anew.
    decoded = builder.decoded() if len(builder.pieces) * _PIECE_SIZE_MIN <= 2 * len(data) else None
    if decoded is None:
        return None
    # A name that is known, but not from the replaced text, may be in an unchanged piece too.
    names = decoded.body.topic_config_serialize_wrapper.topic_config_table
    return None if any(name in known and name not in replaced for name in names) else decoded


class _Builder:
    """Collects the pieces of one registration from left to right, and decodes those that are new."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._start = self.position = start
        self.pieces: list[bytes] = []
        self._topics: dict[str, TopicConfig] = {}
        self._count = 0

    def add_until(self, end: int) -> bool:
        """Add the text up to `end` as a piece; False if it is not one."""
        if end == self.position:
            return True
        piece = self._data[self.position : end]
        entries = _entries(piece)
        if entries is None:
            return False
        self.pieces.append(piece)
        self._topics |= entries
        self._count += len(entries)
        self.position = end
        return True

    def skip(self, piece: bytes) -> None:
        """Add a piece that is known, and decoded before."""
        self.pieces.append(piece)
        self.position += len(piece)

    def decoded(self) -> DecodedRegistration | None:
        """Return the registration with the topics of the new pieces and those outside the pieces, in their order."""
        rest = len(self._data) - self.position
        if not self.pieces or self._start + rest > _CHANGED_SIZE_MAX:
            return None
        body = _decoded_body(b"%b%b,%b" % (self._data[: self._start], _MARKER_ENTRY, self._data[self.position :]))
        if body is None:
            return None
        table = body.topic_config_serialize_wrapper
        others = table.topic_config_table
        if _MARKER not in others or not _are_named_like_keys(others):
            return None
        topics: dict[str, TopicConfig] = {}
        for name, config in others.items():
            topics |= self._topics if name == _MARKER else {name: config}
        if len(topics) != len(others) - 1 + self._count:
            return None
        table.topic_config_table = topics
        is_kept = len(self._data) <= _KEPT_SIZE_MAX
        pieces = TopicPieces(self.pieces, frozenset(others) - {_MARKER}) if is_kept else None
        return DecodedRegistration(body, pieces)


def _table_start(data: bytes) -> int | None:
    """Return the index of the first entry of what should be the topic table."""
    found = data.find(_TABLE)
    # A reference may refer to any part of the document.
    if found < 0 or (b"$" in data and b'"$ref"' in data):
        return None
    return found + len(_TABLE)


def _piece_ends(data: bytes, start: int, end: int) -> Iterator[int]:
    """Yield indexes at which entries seem to start, at distances of a piece."""
    while found := _ENTRY_START.search(data, start + _PIECE_SIZE_MIN, min(start + 2 * _PIECE_SIZE_MIN, end)):
        start = found.start()
        yield start


def _entries(piece: bytes) -> dict[str, TopicConfig] | None:
    try:
        entries = _entries_decoder.decode(b"{%b%b}" % (piece, _MARKER_ENTRY))
    except fastjson.DECODE_ERRORS:
        return None
    if not _are_named_like_keys(entries) or entries.pop(_MARKER, None) is None:
        return None
    return entries if len(piece) <= _TOPIC_SIZE_MAX * len(entries) else None


def _are_named_like_keys(topics: dict[str, TopicConfig]) -> bool:
    return [config.topic_name for config in topics.values()] == list(topics)


def _decoded_body(text: bytes) -> RegisterBrokerBody | None:
    try:
        return _body_decoder.decode(text)
    except msgspec.ValidationError:
        return None
    except fastjson.DECODE_ERRORS:
        pass
    try:
        # The mappings of static topics have unquoted keys.
        return _body_decoder.decode(fastjson.quote_integer_keys(text))
    except fastjson.DECODE_ERRORS:
        return None
