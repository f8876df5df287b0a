"""Fields of binary headers that are alike but for a few values, as those of one producer are: read by comparing.

A section is cut where the values stand that differ from message to message. What lies between them, names and sizes
included, is compared as a whole with what came before.
"""

import struct

import msgspec

_INT = struct.Struct(">i")
_read_size = _INT.unpack_from
# Of SEND_MESSAGE_V2: queue, born timestamp and properties.
_VARYING = frozenset("egi")
# So much of a section tells most senders and topics apart.
_KEY_SIZE = 64
_SHAPES_MAX = 1024
# What is remembered of one, so that nobody can fill the memory; a group and a topic are far shorter.
_CONSTANT_SIZE_MAX = 2048

# What is between the values, with the names that they follow; and the letters of those that vary.
_shapes: dict[bytes, "_Shape"] = {}


class _Shape(msgspec.Struct, gc=False):
    # Before the first value that varies, between that and the next, and so on.
    blocks: tuple[bytes, ...]
    letters: tuple[str, ...]
    fields: dict[str, str]


def known_fields(header: bytes, start: int, end: int) -> dict[str, str] | None:
    """Returns the fields of a section like one that was learnt; None if there was none."""
    shape = _shapes.get(header[start : start + _KEY_SIZE])
    if shape is None:
        return None
    fields = shape.fields.copy()
    blocks = shape.blocks
    at = start
    for block, letter in zip(blocks, shape.letters, strict=False):
        stop = at + len(block)
        if header[at:stop] != block or stop + 4 > end:
            return None
        (size,) = _read_size(header, stop)
        at = stop + 4 + size
        if size <= 0 or at > end:
            return None
        # What is not UTF-8 is refused as it is elsewhere.
        fields[letter] = header[stop + 4 : at].decode()
    return fields if header[at:end] == blocks[-1] else None


def learn(header: bytes, start: int, end: int, spans: list[tuple[str, int, int]], fields: dict[str, str]) -> None:
    """Remembers a section: of each field the letter, and where its value begins and ends."""
    varying = [span for span in spans if span[0] in _VARYING]
    constant_size = end - start - sum(value_end - value_start for _, value_start, value_end in varying)
    if not varying or constant_size > _CONSTANT_SIZE_MAX:
        return
    blocks: list[bytes] = []
    at = start
    for _, value_start, value_end in varying:
        blocks.append(header[at : value_start - 4])
        at = value_end
    blocks.append(header[at:end])
    if len(_shapes) >= _SHAPES_MAX:
        _shapes.clear()
    _shapes[header[start : start + _KEY_SIZE]] = _Shape(
        tuple(blocks),
        tuple(letter for letter, _, _ in varying),
        {name: value if name not in _VARYING else "" for name, value in fields.items()},
    )
