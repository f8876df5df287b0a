"""Fast encoding of messages that differ only in a few fields of equal size, as those of one producer, from columns."""

import functools
import struct
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import NamedTuple

from zlib_ng import zlib_ng

from kerolox.message.message import CRC_MASK, Message
from kerolox.message.records.record import BORN_HOST_AT, encode, head_size


class VaryingColumns(NamedTuple):
    """The fields that differ. Bodies, unique keys and hosts each have one size."""

    queue_ids: Sequence[int]
    born_timestamps: Sequence[int]
    born_hosts: Sequence[bytes]
    bodies: Sequence[bytes]
    unique_keys: Sequence[bytes]


def to_records(first: Message, after_size: int, varying: VaryingColumns) -> tuple[bytearray, range]:
    """Return the records, equal to those of `encode`, and the start of each.

    All other fields come from `first`, whose properties have `after_size` bytes after the unique key.
    """
    queue_ids, born_timestamps, born_hosts, bodies, unique_keys = varying
    record = bytes(encode(first, len(first.body)))
    size, body_at = len(record), head_size(first)
    body_end, host_end = body_at + len(first.body), BORN_HOST_AT + len(first.born_host)
    after_at = size - after_size
    key_at = after_at - len(unique_keys[0])
    between = record[host_end:body_at], record[body_end:key_at], record[after_at:]
    sizes = len(first.born_host), body_at - host_end, len(first.body), key_at - body_end, after_at - key_at, after_size
    records = map(
        _packing(*sizes),
        repeat(record[:8]),
        [crc & CRC_MASK for crc in map(zlib_ng.crc32, bodies)],
        queue_ids,
        repeat(record[16:40]),
        born_timestamps,
        born_hosts,
        repeat(between[0]),
        bodies,
        repeat(between[1]),
        unique_keys,
        repeat(between[2]),
    )
    return bytearray().join(records), range(0, len(bodies) * size, size)


@functools.lru_cache(maxsize=256)
def _packing(
    host_size: int, before_body: int, body_size: int, before_key: int, key_size: int, after_key: int
) -> Callable[..., bytes]:
    """Return a function that packs CRC, queue id, born timestamp, born host, body, unique key and the constants."""
    return struct.Struct(f">8sIi24sq{host_size}s{before_body}s{body_size}s{before_key}s{key_size}s{after_key}s").pack
