"""Record summaries: the fields that dispatching needs, read without decoding the message (DispatchRequest)."""

import struct
from typing import Final

import msgspec
from zlib_ng import zlib_ng

from kerolox.message import property_names
from kerolox.message.message import CRC_MASK
from kerolox.message.properties import find, mark
from kerolox.message.records import layout
from kerolox.message.records.layout import HOSTS_AT
from kerolox.message.records.record import (
    MAGIC_V1,
    PROPERTIES_SIZE_MAX,
    TOPIC_SIZE_MAX,
    Buffer,
    topic_and_end,
    truncated,
    wrong_crc,
)
from kerolox.message.sysflag import HOSTS_MASK
from kerolox.message.tags import SHORT_TAG_SIZE_MAX, short_tags_code, tags_code

TAGS_MARK = mark(property_names.TAGS)
KEYS_MARK = mark(property_names.KEYS)
UNIQ_KEY_MARK = mark(property_names.UNIQ_KEY)

# The fields of the head that are read.
SUMMARY_FIELDS: Final = (
    "size",
    "magic",
    "crc",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "sys_flag",
    "store_timestamp",
    "body_size",
)
_HEADS = tuple(layout.head(SUMMARY_FIELDS, hosts) for hosts in range(len(layout.HOST_SIZES)))
_MAGIC = MAGIC_V1.to_bytes(4)
_INT = struct.Struct(">i")

# Head, length of the topic and length of the properties.
_RECORD_SIZE_MIN: Final = _HEADS[0].size + 3
# The unit that a disk writes atomically.
SECTOR_SIZE: Final = 512
_ZERO_SECTOR: Final = bytes(SECTOR_SIZE)
# Cache of decoded topics: most records are of a few topics.
_topics: dict[bytes, str] = {}
_TOPICS_MAX: Final = 16_384


class RecordSummary(msgspec.Struct, gc=False):
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes
    tags_code: int
    # Separated by spaces; empty if there are none.
    keys: bytes
    unique_key: bytes
    tag: bytes


def peek(buffer: Buffer, at: int = 0, *, check_crc: bool = False) -> RecordSummary:
    """Return the summary of the record at `at`; RecordError exactly where `decode` raises it.

    For SCHEDULE_TOPIC_XXXX the tags code in the queue is the delivery time instead; the caller must compute it.
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
        raise truncated(buffer, at) from error
    body_start = at + head.size
    topic, topic_end = topic_and_end(buffer, at, size, magic, body_start, body_size)
    if check_crc:
        found = zlib_ng.crc32(buffer[body_start : body_start + body_size]) & CRC_MASK
        if found != crc:
            raise wrong_crc(at, crc, found)
    properties = bytes(buffer[topic_end + 2 : at + size])
    tag = find(properties, TAGS_MARK)
    return RecordSummary(
        size,
        topic,
        queue_id,
        queue_offset,
        physical_offset,
        sys_flag,
        store_timestamp,
        properties,
        tags_code(tag),
        find(properties, KEYS_MARK),
        find(properties, UNIQ_KEY_MARK),
        tag,
    )


def peek_run(buffer: bytes, at: int, physical_offset: int, *, check_crc: bool = False) -> list[RecordSummary]:
    """Return summaries, equal to those of `peek`, of consecutive records from `at` on, up to the first unusual one.

    The records must declare consecutive physical offsets from `physical_offset` on. The first one left out may be
    valid nevertheless; use `peek` for it.
    """
    found: list[RecordSummary] = []
    unpack, head_size = _HEADS[0].unpack_from, _HEADS[0].size
    crc32, topic_of, add = zlib_ng.crc32, _topics.get, found.append
    view, limit = memoryview(buffer), len(buffer)
    last, shift = limit - _RECORD_SIZE_MIN, physical_offset - at
    while at <= last:
        (
            size,
            magic,
            crc,
            queue_id,
            queue_offset,
            declared_offset,
            sys_flag,
            store_timestamp,
            body_size,
        ) = unpack(buffer, at)
        body_start = at + head_size
        body_end = body_start + body_size
        end = at + size
        if (
            magic != MAGIC_V1
            or declared_offset != at + shift
            or sys_flag & HOSTS_MASK
            or not body_start <= body_end <= end - 3
            or end > limit
        ):
            break
        topic_end = body_end + 1 + buffer[body_end]
        start = topic_end + 2
        if start > end or start + (buffer[topic_end] << 8 | buffer[topic_end + 1]) != end:
            break
        properties = buffer[start:end]
        if start < end and not properties[-1]:
            break
        if end - start >= SECTOR_SIZE and (
            end - start > PROPERTIES_SIZE_MAX or is_torn(properties, declared_offset + size)
        ):
            break
        data = buffer[body_end + 1 : topic_end]
        topic = topic_of(data) or _decode_topic(data)
        if not topic or (check_crc and crc32(view[body_start:body_end]) & CRC_MASK != crc):
            break
        # `find` inlined for the usual case: the name occurs once, or not at all.
        tag = keys = unique_key = b""
        code = 0
        found_at = properties.rfind(TAGS_MARK)
        if found_at >= 0:
            stop = properties.find(b"\2", found_at)
            if stop > 0 and (not found_at or properties[found_at - 1] == 2):
                tag = properties[found_at + 5 : stop]
            tag = tag or find(properties, TAGS_MARK)
            code = short_tags_code(tag) if len(tag) <= SHORT_TAG_SIZE_MAX else tags_code(tag)
        found_at = properties.rfind(KEYS_MARK)
        if found_at >= 0:
            stop = properties.find(b"\2", found_at)
            if stop > 0 and (not found_at or properties[found_at - 1] == 2):
                keys = properties[found_at + 5 : stop]
            keys = keys or find(properties, KEYS_MARK)
        found_at = properties.rfind(UNIQ_KEY_MARK)
        if found_at >= 0:
            stop = properties.find(b"\2", found_at)
            if stop > 0 and (not found_at or properties[found_at - 1] == 2):
                unique_key = properties[found_at + 9 : stop]
            unique_key = unique_key or find(properties, UNIQ_KEY_MARK)
        add(
            RecordSummary(
                size,
                topic,
                queue_id,
                queue_offset,
                declared_offset,
                sys_flag,
                store_timestamp,
                properties,
                code,
                keys,
                unique_key,
                tag,
            )
        )
        at = end
    return found


def is_torn(properties: bytes, end: int) -> bool:
    """Whether the end of the properties, or a sector within them, never reached the disk.

    `end` is their end as a physical offset. No checksum covers the bytes after the body, but properties never end with
    a zero byte.
    """
    if not properties:
        return False
    if properties[-1] == 0:
        return True
    if len(properties) < SECTOR_SIZE or _ZERO_SECTOR not in properties:
        return False
    start = end - len(properties)
    sectors = range(-start % SECTOR_SIZE, len(properties) - SECTOR_SIZE + 1, SECTOR_SIZE)
    return any(properties[at : at + SECTOR_SIZE] == _ZERO_SECTOR for at in sectors)


def known_topic(data: bytes) -> str:
    """Return the decoded topic, cached; empty if it is too long for MAGIC_V1, has zero bytes or is not UTF-8."""
    return _topics.get(data) or _decode_topic(data)


def _decode_topic(data: bytes) -> str:
    if len(data) > TOPIC_SIZE_MAX or b"\0" in data:
        return ""
    try:
        topic = data.decode()
    except UnicodeDecodeError:
        return ""
    if len(_topics) >= _TOPICS_MAX:
        _topics.clear()
    _topics[data] = topic
    return topic


def properties_of(record: bytes) -> bytes:
    """Return the encoded properties of a record, which must be complete and valid."""
    body_start = _HEADS[record[HOSTS_AT] >> 4 & 3].size
    topic_start = body_start + _INT.unpack_from(record, body_start - 4)[0]
    if record[4:8] == _MAGIC:
        return record[topic_start + record[topic_start] + 3 :]
    return record[topic_start + int.from_bytes(record[topic_start : topic_start + 2]) + 4 :]
