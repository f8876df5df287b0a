"""Fast encoding of batches whose parts differ only in body and unique key and have equal sizes, as most batches do.

One Struct call unpacks many parts, and one packs their records.
"""

import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from zlib_ng import zlib_ng

from kerolox.message import property_names
from kerolox.message.message import CRC_MASK, Message
from kerolox.message.properties import mark
from kerolox.message.records.layout import PART_HEAD
from kerolox.message.records.record import shared_head

_HEAD_SIZE = PART_HEAD.size
_UNIQ_KEY = mark(property_names.UNIQ_KEY)
# Parts handled with one call; the remainder is handled in powers of two, so that few layouts are needed.
_PARTS_MAX = 64


class EvenBatchLayout(NamedTuple):
    """How each part is divided: head, body, bytes before the unique key, the key, and the rest."""

    part_count: int
    size: int
    head: bytes
    body_size: int
    # Length of the properties, and the properties before the key.
    before: bytes
    key_size: int
    rest: bytes

    @property
    def properties(self) -> bytes:
        """The properties of any part, with zeros in place of the unique key."""
        return self.before[2:] + b"0" * self.key_size + self.rest


def detect_layout(data: bytes) -> EvenBatchLayout | None:
    """Return the layout of a batch whose parts seem uniform; None if they are not. `to_records` checks every part."""
    if len(data) < _HEAD_SIZE:
        return None
    size, _, body_size = PART_HEAD.unpack_from(data)
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
        # The key is the last property and has no separator after it, as 4.9 clients write it.
        key_end = size
    properties_size = int.from_bytes(data[properties_at : properties_at + 2], signed=True)
    if key_at < len(_UNIQ_KEY) or key_end <= key_at or properties_at + 2 + properties_size != size:
        return None
    return EvenBatchLayout(
        count, size, head, body_size, data[properties_at:key_at], key_end - key_at, data[key_end:size]
    )


def to_records(
    data: bytes, batch_layout: EvenBatchLayout, shared: Message
) -> tuple[bytearray, range, list[bytes]] | None:
    """Return the records of all parts, the start of each, and the unique key of each; None if parts are not uniform.

    The records equal those of `batch.to_records`.
    """
    count, size, head, body_size, before, key_size, rest = batch_layout
    record_head, magic, between, topic = shared_head(shared)
    record_size = size + record_head.size + len(topic) - _HEAD_SIZE
    packed = record_head.pack(record_size, magic, 0, shared.queue_id, PART_HEAD.unpack(head)[1], between, body_size)
    # Constants of each record: before the CRC; from the CRC to the body; from the body to the unique key; after the
    # key, joined with the beginning of the next record.
    first, second = packed[:8], packed[12:]
    third, last = topic + before, rest + first
    records = bytearray(count * record_size)
    keys: list[bytes] = []
    at, start = 0, 0
    for number in _block_sizes(count):
        layout = _layout(number, body_size, len(before), key_size, len(rest), len(second), len(third))
        parts = layout.unpack(data, at)
        bodies, unique_keys = parts[1::4], parts[3::4]
        # All constants of all parts must be equal.
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
    """Return functions that unpack `number` parts and pack their records."""
    # The constant end of one part and the constant beginning of the next are one field.
    part = f"{body_size}s{before_size}s{key_size}s"
    parts = f">{_HEAD_SIZE}s{f'{part}{rest_size + _HEAD_SIZE}s' * (number - 1)}{part}{rest_size}s"
    record = f"I{second_size}s{body_size}s{third_size}s{key_size}s"
    records = f">8s{f'{record}{rest_size + 8}s' * (number - 1)}{record}{rest_size}s"
    return _Layout(struct.Struct(parts).unpack_from, struct.Struct(records).pack_into)


def _block_sizes(count: int) -> Iterator[int]:
    """Split `count` into _PARTS_MAX and smaller powers of two."""
    number = _PARTS_MAX
    while count:
        while number > count:
            number //= 2
        yield number
        count -= number
