"""What a dispatcher wants to know of a record, read without making a message of it."""

import struct
import zlib

import msgspec

from kerolox.message import names
from kerolox.message.message import CRC_MASK
from kerolox.message.properties import find, mark
from kerolox.message.record import HOSTS_AT, Buffer, cut_off, topic_and_end, wrong_crc
from kerolox.message.tags import tags_code

TAGS_MARK = mark(names.TAGS)
KEYS_MARK = mark(names.KEYS)
UNIQ_KEY_MARK = mark(names.UNIQ_KEY)

# Size, magic, CRC, queue id, both offsets, sysFlag, store timestamp and size of the body; what lies between is skipped.
_HEADS = tuple(
    struct.Struct(f">IIIi4xqqi{8 + born}xq{store + 12}xi") for born, store in ((8, 8), (20, 8), (8, 20), (20, 20))
)


class Peek(msgspec.Struct, gc=False):
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes
    tags_code: int
    # Parted by spaces; empty if there are none.
    keys: bytes
    unique_key: bytes


def peek(buffer: Buffer, at: int = 0, *, check_crc: bool = False) -> Peek:
    """Returns what stands in the record at `at`; RecordError exactly where `decode` raises it.

    In SCHEDULE_TOPIC_XXXX the tags code of the queue is a time instead, and the caller's to find.
    """
    try:
        head = _HEADS[buffer[at + HOSTS_AT] >> 4 & 3]
        (
            size,
            magic,
            crc,
            queue_id,
            queue_offset,
            physical_offset,
            sys_flag,
            store_timestamp,
            body_size,
        ) = head.unpack_from(buffer, at)
    except (IndexError, struct.error) as error:
        raise cut_off(buffer, at) from error
    body_start = at + head.size
    topic, topic_end = topic_and_end(buffer, at, size, magic, body_start, body_size)
    if check_crc:
        found = zlib.crc32(buffer[body_start : body_start + body_size]) & CRC_MASK
        if found != crc:
            raise wrong_crc(at, crc, found)
    properties = bytes(buffer[topic_end + 2 : at + size])
    return Peek(
        size,
        topic,
        queue_id,
        queue_offset,
        physical_offset,
        sys_flag,
        store_timestamp,
        properties,
        tags_code(find(properties, TAGS_MARK)),
        find(properties, KEYS_MARK),
        find(properties, UNIQ_KEY_MARK),
    )
