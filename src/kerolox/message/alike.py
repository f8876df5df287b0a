"""Records of messages that are alike, as those of one producer are: each is packed with one call, from columns."""

import functools
import struct
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import NamedTuple

from zlib_ng import zlib_ng

from kerolox.message.message import CRC_MASK, Message
from kerolox.message.record import BORN_HOST_AT, encode, head_size


class Varying(NamedTuple):
    """What differs in messages that are alike. Their bodies, unique keys and hosts are each of one size."""

    queue_ids: Sequence[int]
    born_timestamps: Sequence[int]
    born_hosts: Sequence[bytes]
    bodies: Sequence[bytes]
    unique_keys: Sequence[bytes]


def to_records(first: Message, after_size: int, varying: Varying) -> tuple[bytearray, range]:
    """Returns the records of messages, as `encode` would, and where each begins.

    All that does not vary is that of the first, in whose properties so many bytes follow the unique key.
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
        *(repeat(record[:8]), [crc & CRC_MASK for crc in map(zlib_ng.crc32, bodies)], queue_ids),
        *(repeat(record[16:40]), born_timestamps, born_hosts, repeat(between[0]), bodies),
        *(repeat(between[1]), unique_keys, repeat(between[2])),
    )
    return bytearray().join(records), range(0, len(bodies) * size, size)


@functools.lru_cache(maxsize=256)
def _packing(
    host_size: int, before_body: int, body_size: int, before_key: int, key_size: int, after_key: int
) -> Callable[..., bytes]:
    """Returns what packs a record: around CRC, queue, born timestamp, born host, body and unique key are constants."""
    return struct.Struct(f">8sIi24sq{host_size}s{before_body}s{body_size}s{before_key}s{key_size}s{after_key}s").pack
