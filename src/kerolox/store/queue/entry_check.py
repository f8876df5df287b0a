"""Checks that records belong to the queue whose entries point to them.

A record contains its topic, queue id and queue offset, so a damaged entry is detected before a message is served.
"""

import functools
import struct
from collections.abc import Sequence
from itertools import repeat

from kerolox.message.records.layout import HEADS, HOSTS_AT, head
from kerolox.message.records.record import MAGIC_V2
from kerolox.store.log.records import Run

# Size, magic, queue id and queue offset of a record, and the byte of sysFlag with the lengths of its hosts.
_FIELDS = head(("size", "magic", "queue_id", "queue_offset"))
_HEAD = struct.Struct(f"{_FIELDS.format}{HOSTS_AT - _FIELDS.size}xB")
_unpack_head = _HEAD.unpack_from
_INT = struct.Struct(">i")
_unpack_int = _INT.unpack_from
# Position of the body size, by the two bits of that byte.
_BODY_SIZE_AT = tuple(head.size - _INT.size for head in HEADS)


def are_of_queue(runs: Sequence[Run], topic: bytes, queue_id: int, queue_offsets: Sequence[int]) -> bool:
    """Whether the records of `runs`, in order, are the messages of a queue at exactly these offsets."""
    try:
        if len(runs) == 1 and len(queue_offsets) > 1 and _are_even(runs[0], topic, queue_id, queue_offsets):
            return True
        return _are_of_queue(runs, topic, queue_id, queue_offsets)
    except (IndexError, struct.error):
        return False


def is_of_queue(record: Run, topic: bytes, queue_id: int, queue_offset: int) -> bool:
    """Whether a complete record is the message of a queue at an offset."""
    return are_of_queue((record,), topic, queue_id, (queue_offset,))


def _are_of_queue(runs: Sequence[Run], topic: bytes, queue_id: int, queue_offsets: Sequence[int]) -> bool:
    usual, index = _packed(topic, 0), 0
    for run in runs:
        at, end = 0, len(run)
        while at < end:
            size, magic, declared_queue_id, declared_queue_offset, flags = _unpack_head(run, at)
            if declared_queue_id != queue_id or declared_queue_offset != queue_offsets[index] or size <= 0:
                return False
            body_size_at = at + _BODY_SIZE_AT[flags >> 4 & 3]
            topic_at = body_size_at + 4 + _unpack_int(run, body_size_at)[0]
            packed = usual if magic != MAGIC_V2 else _packed(topic, magic)
            if run[topic_at : topic_at + len(packed)] != packed:
                return False
            at += size
            index += 1
    return index == len(queue_offsets)


def _are_even(run: Run, topic: bytes, queue_id: int, queue_offsets: Sequence[int]) -> bool:
    """Whether all records have the size and layout of the first and are the expected ones.

    In most queues the messages have one size, so thousands of them are compared with one unpack.
    """
    count = len(queue_offsets)
    size, magic, _, _, flags = _unpack_head(run, 0)
    body_size_at = _BODY_SIZE_AT[flags >> 4 & 3]
    (body_size,) = _unpack_int(run, body_size_at)
    packed, topic_at = _packed(topic, magic), body_size_at + 4 + body_size
    if size * count != len(run) or body_size < 0 or topic_at + len(packed) > size:
        return False
    layout = _layout(size, body_size_at, topic_at, len(packed))
    head = map(repeat, (size, magic, queue_id))
    rest = map(repeat, (flags, body_size, packed))
    return list(layout.iter_unpack(run)) == list(zip(*head, queue_offsets, *rest, strict=False))


def _packed(topic: bytes, magic: int) -> bytes:
    """Return a topic with its length prefix, as in a record."""
    return len(topic).to_bytes(2 if magic == MAGIC_V2 or len(topic) > 255 else 1) + topic


@functools.lru_cache(maxsize=256)
def _layout(size: int, body_size_at: int, topic_at: int, packed_size: int) -> struct.Struct:
    """Return a Struct that unpacks head, body size and length-prefixed topic of a record."""
    before, body_size = body_size_at - _HEAD.size, topic_at - body_size_at - _INT.size
    return struct.Struct(f"{_HEAD.format}{before}xi{body_size}x{packed_size}s{size - topic_at - packed_size}x")
