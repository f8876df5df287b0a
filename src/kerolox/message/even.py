"""Batches whose parts are alike, as most are: but for body, CRC and unique key every part says the same.

They are taken apart and made into records as a whole: one call unpacks many parts, and one packs their records.
"""

import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from zlib_ng import zlib_ng

from kerolox.message import names
from kerolox.message.message import CRC_MASK, Message
from kerolox.message.properties import mark
from kerolox.message.record import shared_head

_HEAD = struct.Struct(">I8xii")
_HEAD_SIZE = _HEAD.size
_UNIQ_KEY = mark(names.UNIQ_KEY)
# So many parts are unpacked and packed with one call; of what is left over a half, a quarter, and so on, so that few
# layouts are needed.
_PARTS_MAX = 64


class Outline(NamedTuple):
    """How the parts of a batch are cut: head, body, what precedes the unique key, the key, and the rest."""

    part_count: int
    size: int
    head: bytes
    body_size: int
    # The properties have their length before them.
    before: bytes
    key_size: int
    rest: bytes

    @property
    def properties(self) -> bytes:
        """Those of any part, with a key of the same size that nobody has."""
        return self.before[2:] + b"0" * self.key_size + self.rest


def outline(data: bytes) -> Outline | None:
    """Returns how a batch is cut if its parts can be alike; None if they cannot."""
    if len(data) < _HEAD_SIZE:
        return None
    size, _, body_size = _HEAD.unpack_from(data)
    properties_at = _HEAD_SIZE + body_size
    if size < _HEAD_SIZE or len(data) % size or not 0 < body_size <= size - _HEAD_SIZE - 2:
        return None
    count = len(data) // size
    head = data[:_HEAD_SIZE]
    if count < 2 or not data.startswith(head, len(data) - size) or not data.startswith(head, count // 2 * size):
        return None
    key_at = data.find(_UNIQ_KEY, properties_at + 2, size) + len(_UNIQ_KEY)
    key_end = data.find(b"\x02", key_at, size)
    if key_end < 0:
        # It comes last, as clients of 4.9 write it.
        key_end = size
    properties_size = int.from_bytes(data[properties_at : properties_at + 2], signed=True)
    if key_at < len(_UNIQ_KEY) or key_end <= key_at or properties_at + 2 + properties_size != size:
        return None
    return Outline(count, size, head, body_size, data[properties_at:key_at], key_end - key_at, data[key_end:size])


def to_records(data: bytes, outlined: Outline, shared: Message) -> tuple[bytearray, range, list[bytes]] | None:
    """Returns the records of all parts, where each begins, and the unique key of each; None if they are not alike.

    The records are those that `batch.to_records` returns.
    """
    count, size, head, body_size, before, key_size, rest = outlined
    packing, magic, between, topic = shared_head(shared)
    # What stands around the CRC of the body.
    record_size = size + packing.size + len(topic) - _HEAD_SIZE
    packed = packing.pack(record_size, magic, 0, shared.queue_id, _HEAD.unpack(head)[1], between, body_size)
    first, second = packed[:8], packed[12:]
    third, last = topic + before, rest + first
    records = bytearray(count * record_size)
    keys: list[bytes] = []
    at, start = 0, 0
    for number in _numbers(count):
        layout = _layout(number, body_size, len(before), key_size, len(rest), len(second), len(third))
        parts = layout.unpack(data, at)
        bodies, unique_keys = parts[1::4], parts[3::4]
        # Whatever differs in one of them is looked at more closely.
        if (
            parts[0] != head
            or parts[-1] != rest
            or parts[2::4].count(before) < number
            or parts[4::4].count(rest + head) < number - 1
        ):
            return None
        values: list[Any] = [0, second, 0, third, 0, last] * number
        values[0::6] = [crc & CRC_MASK for crc in map(zlib_ng.crc32, bodies)]
        values[2::6] = bodies
        values[4::6] = unique_keys
        values[-1] = rest
        layout.pack(records, start, first, *values)
        keys += unique_keys
        at += number * size
        start += number * record_size
    if b"\x02" in b"".join(keys):
        return None
    return records, range(0, len(records), record_size), keys


class _Layout(NamedTuple):
    unpack: Callable[[bytes, int], tuple[Any, ...]]
    pack: Callable[..., None]


@functools.lru_cache(maxsize=256)
def _layout(
    number: int, body_size: int, before_size: int, key_size: int, rest_size: int, second_size: int, third_size: int
) -> _Layout:
    """Returns how so many parts are unpacked, and how their records are packed."""
    # What is constant at the end of one and at the beginning of the next comes in one piece.
    part = f"{body_size}s{before_size}s{key_size}s"
    parts = f">{_HEAD_SIZE}s{f'{part}{rest_size + _HEAD_SIZE}s' * (number - 1)}{part}{rest_size}s"
    record = f"I{second_size}s{body_size}s{third_size}s{key_size}s"
    records = f">8s{f'{record}{rest_size + 8}s' * (number - 1)}{record}{rest_size}s"
    return _Layout(struct.Struct(parts).unpack_from, struct.Struct(records).pack_into)


def _numbers(count: int) -> Iterator[int]:
    """Yields how many parts are dealt with at once."""
    number = _PARTS_MAX
    while count:
        while number > count:
            number //= 2
        yield number
        count -= number
