"""Encodes and decodes records: the binary form of a message in the log, in pull responses and between brokers.

 0  int32  size of the record         36  int32  sysFlag
 4  int32  magic                      40  int64  born timestamp
 8  int32  CRC of the body            48  8, 20  born host: ip, port as int32
12  int32  queue id                       int64  store timestamp
16  int32  flag                           8, 20  store host
20  int64  queue offset                   int32  reconsume times
28  int64  physical offset                int64  prepared transaction offset

then, each with a length prefix, the body (int32), the topic (int8, or int16 with MAGIC_V2) and the properties (int16).
The lengths of the hosts are in sysFlag.
"""

import functools
import struct
from collections import deque
from collections.abc import Iterable
from itertools import repeat
from typing import Final, TypeAlias

from zlib_ng import zlib_ng

from kerolox.message import sysflag
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.hosts import IPV4_HOST_SIZE
from kerolox.message.message import CRC_MASK, Message
from kerolox.message.records.layout import HEADS, HOSTS_AT, RECORD_SIZE_MIN, STORE_TIMESTAMP_AT, position

MAGIC_V1: Final = 0xDAA320A7
# The length of the topic has two bytes; clients before 5.1 cannot read such records.
MAGIC_V2: Final = 0xDAA320AB
# A blank record fills a file of the commit log after its last record.
BLANK_MAGIC: Final = 0xCBD43194

BODY_SIZE_MAX: Final = 4 * 1024 * 1024
PROPERTIES_SIZE_MAX: Final = 0x7FFF
TOPIC_SIZE_MAX: Final = 127
# Retry and dead-letter topics, which are named after a group.
GROUP_TOPIC_SIZE_MAX: Final = 255
BLANK_SIZE_MIN: Final = 8

Buffer: TypeAlias = bytes | bytearray | memoryview

_GROUP_TOPICS = ("%RETRY%", "%DLQ%")
_SIZE_AND_MAGIC = struct.Struct(">II")
_SHORT = struct.Struct(">h")
_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")

_QUEUE_OFFSET_AT: Final = position("queue_offset")

# A head with everything between flag and body size as one field.
_SHARED_HEADS = tuple(struct.Struct(f">IIIii{head.size - _QUEUE_OFFSET_AT - 4}si") for head in HEADS)

# Queue offset, physical offset, everything in between, and store timestamp; for a born host of IPv4 and of IPv6.
_STAMPS = tuple(struct.Struct(f">qq{at - position('sys_flag')}sq") for at in STORE_TIMESTAMP_AT)


def encode(message: Message, body_size_max: int = BODY_SIZE_MAX) -> bytearray:
    """Encode a message; MessageIllegal if it does not fit into a record. The host bits of sysFlag follow the hosts."""
    body, properties = message.body, message.properties
    body_size, properties_size = len(body), len(properties)
    if body_size > body_size_max:
        raise MessageIllegal(f"body of {body_size} bytes, at most {body_size_max} allowed")
    if properties_size > PROPERTIES_SIZE_MAX:
        check_properties(properties)
    magic, topic = packed_topic(message.topic)
    born_host, store_host = message.born_host, message.store_host
    hosts = (len(born_host) != IPV4_HOST_SIZE) | (len(store_host) != IPV4_HOST_SIZE) << 1
    head = HEADS[hosts]
    try:
        packed = head.pack(
            head.size + body_size + len(topic) + 2 + properties_size,
            magic,
            zlib_ng.crc32(body) & CRC_MASK,
            message.queue_id,
            message.flag,
            message.queue_offset,
            message.physical_offset,
            message.sys_flag & ~sysflag.HOSTS_MASK | hosts << 4,
            message.born_timestamp,
            born_host,
            message.store_timestamp,
            store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
            body_size,
        )
    except struct.error as error:
        raise MessageIllegal(f"a number is too large for a record: {error}") from error
    return bytearray().join((packed, body, topic, _SHORT.pack(properties_size), properties))


def _host_bits(message: Message) -> int:
    return (len(message.born_host) != IPV4_HOST_SIZE) | (len(message.store_host) != IPV4_HOST_SIZE) << 1


def shared_head(message: Message) -> tuple[struct.Struct, int, bytes, bytes]:
    """Return what records have in common that share all fields but flag, body and properties with a message.

    The first element packs a head from size, magic, CRC, queue id, flag, middle part and body size. The others are the
    magic, the middle part, and the length-prefixed topic, which follows the body.
    """
    magic, topic = packed_topic(message.topic)
    born_host, store_host, hosts = message.born_host, message.store_host, _host_bits(message)
    sys_flag = message.sys_flag & ~sysflag.HOSTS_MASK | hosts << 4
    times = message.reconsume_times
    packed = HEADS[hosts].pack(
        0, 0, 0, 0, 0, 0, 0, sys_flag, message.born_timestamp, born_host, 0, store_host, times, 0, 0
    )
    return _SHARED_HEADS[hosts], magic, packed[_QUEUE_OFFSET_AT:-4], topic


@functools.lru_cache(maxsize=8192)
def packed_topic(topic: str) -> tuple[int, bytes]:
    """Return the magic that the topic requires, and the length-prefixed topic."""
    try:
        data = topic.encode()
    except UnicodeEncodeError as error:
        raise MessageIllegal(f"topic {topic!r} cannot be encoded as UTF-8") from error
    size_max = GROUP_TOPIC_SIZE_MAX if topic.startswith(_GROUP_TOPICS) else TOPIC_SIZE_MAX
    if len(data) > size_max:
        raise MessageIllegal(f"topic of {len(data)} bytes, at most {size_max} allowed: {topic[:300]!r}")
    if len(data) <= TOPIC_SIZE_MAX:
        return MAGIC_V1, bytes((len(data),)) + data
    return MAGIC_V2, _SHORT.pack(len(data)) + data


def check_properties(properties: bytes) -> None:
    """Raise MessageIllegal if the properties are too long for a record; call it before parsing them."""
    if len(properties) > PROPERTIES_SIZE_MAX:
        raise MessageIllegal(f"properties of {len(properties)} bytes, at most {PROPERTIES_SIZE_MAX} allowed")


def check_topic(topic: str) -> None:
    """Raise MessageIllegal if the topic does not fit into a record."""
    packed_topic(topic)


def stamp(record: bytearray, queue_offset: int, physical_offset: int, store_timestamp: int, at: int = 0) -> None:
    """Write into a record the fields that are known only when it is appended."""
    _TWO_LONGS.pack_into(record, at + _QUEUE_OFFSET_AT, queue_offset, physical_offset)
    is_v6 = record[at + HOSTS_AT] & sysflag.BORN_HOST_V6
    _LONG.pack_into(record, at + STORE_TIMESTAMP_AT[is_v6 != 0], store_timestamp)


def stamp_all(
    records: bytearray,
    starts: Iterable[int],
    queue_offsets: Iterable[int],
    physical_offset: int,
    store_timestamp: int,
) -> None:
    """Stamp adjacent records that begin at `starts`.

    If `starts` is a range, all records have one size and hosts of equal length. If `queue_offsets` is a range, too,
    they are one batch, and so equal between physical offset and store timestamp.
    """
    if isinstance(starts, range):
        stamp_range = _stamp_batch if isinstance(queue_offsets, range) else _stamp_equal_sizes
        stamp_range(records, starts, queue_offsets, physical_offset, store_timestamp)
        return
    pack_offsets, pack_timestamp = _TWO_LONGS.pack_into, _LONG.pack_into
    for start, queue_offset in zip(starts, queue_offsets, strict=False):
        pack_offsets(records, start + _QUEUE_OFFSET_AT, queue_offset, physical_offset + start)
        is_v6 = records[start + HOSTS_AT] & sysflag.BORN_HOST_V6
        pack_timestamp(records, start + STORE_TIMESTAMP_AT[is_v6 != 0], store_timestamp)


def _stamp_equal_sizes(
    records: bytearray, starts: range, queue_offsets: Iterable[int], physical_offset: int, store_timestamp: int
) -> None:
    is_v6 = records[HOSTS_AT] & sysflag.BORN_HOST_V6
    at, end, step = STORE_TIMESTAMP_AT[is_v6 != 0], len(records), starts.step
    positions = range(_QUEUE_OFFSET_AT, end, step)
    physical_offsets = range(physical_offset, physical_offset + end, step)
    # A deque of length 0 consumes the map at C speed.
    deque(map(_TWO_LONGS.pack_into, repeat(records), positions, queue_offsets, physical_offsets), maxlen=0)
    deque(map(_LONG.pack_into, repeat(records), range(at, end, step), repeat(store_timestamp)), maxlen=0)


def _stamp_batch(
    records: bytearray, starts: range, queue_offsets: Iterable[int], physical_offset: int, store_timestamp: int
) -> None:
    """Stamp records of equal size and equal bytes between physical offset and store timestamp: one pack for each."""
    fields = _STAMPS[records[HOSTS_AT] & sysflag.BORN_HOST_V6 != 0]
    positions = range(_QUEUE_OFFSET_AT, len(records), starts.step)
    physical_offsets = range(physical_offset, physical_offset + len(records), starts.step)
    between = bytes(records[_QUEUE_OFFSET_AT + _TWO_LONGS.size : _QUEUE_OFFSET_AT + fields.size - _LONG.size])
    stamps = map(
        fields.pack_into,
        repeat(records),
        positions,
        queue_offsets,
        physical_offsets,
        repeat(between),
        repeat(store_timestamp),
    )
    deque(stamps, maxlen=0)


def blank(size: int) -> bytes:
    """Return the beginning of a blank record of `size` bytes; readers ignore the rest of it."""
    assert size >= BLANK_SIZE_MIN
    return _SIZE_AND_MAGIC.pack(size, BLANK_MAGIC)


def size_and_magic(buffer: Buffer, at: int = 0) -> tuple[int, int]:
    """Return the first two fields of a record, unchecked; RecordError if there are fewer than eight bytes."""
    try:
        size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, at)
    except struct.error as error:
        raise RecordError(f"record at {at} is truncated: {len(buffer) - at} bytes, at least 8 needed") from error
    return size, magic


def decode_all(buffer: Buffer, *, check_crc: bool = False) -> list[Message]:
    """Decode adjacent records."""
    messages: list[Message] = []
    at, end = 0, len(buffer)
    while at < end:
        messages.append(decode(buffer, at, check_crc=check_crc))
        at += size_and_magic(buffer, at)[0]
    return messages


def decode(buffer: Buffer, at: int = 0, *, check_crc: bool = False) -> Message:
    """Decode the record at `at`; RecordError if it is invalid. Bytes after the record are ignored."""
    try:
        head = HEADS[buffer[at + HOSTS_AT] >> 4 & 3]
        (
            size,
            magic,
            crc,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp,
            born_host,
            store_timestamp,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body_size,
        ) = head.unpack_from(buffer, at)
    except (IndexError, struct.error) as error:
        raise truncated(buffer, at) from error
    body_start = at + head.size
    topic, topic_end = topic_and_end(buffer, at, size, magic, body_start, body_size)
    body = bytes(buffer[body_start : body_start + body_size])
    if check_crc and zlib_ng.crc32(body) & CRC_MASK != crc:
        raise wrong_crc(at, crc, zlib_ng.crc32(body) & CRC_MASK)
    return Message(
        topic,
        body,
        bytes(buffer[topic_end + 2 : at + size]),
        queue_id,
        flag,
        sys_flag,
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        queue_offset,
        physical_offset,
    )


def topic_and_end(buffer: Buffer, at: int, size: int, magic: int, body_start: int, body_size: int) -> tuple[str, int]:
    """Return the topic and the position of its end; RecordError if the lengths of the parts do not add up."""
    start = body_start + body_size + 1
    if magic == MAGIC_V2:
        start += 1
    elif magic != MAGIC_V1:
        raise RecordError(f"record at {at} has magic {magic:#x}, expected {MAGIC_V1:#x} or {MAGIC_V2:#x}")
    end = at + size
    if end > len(buffer):
        raise RecordError(f"record at {at} is truncated: {len(buffer) - at} of {size} bytes")
    if body_size < 0 or start + 2 > end:
        raise RecordError(f"record at {at} has a body of {body_size} bytes in {size}")
    topic_size = buffer[start - 1]
    if magic == MAGIC_V2:
        topic_size |= buffer[start - 2] << 8
    topic_end = start + topic_size
    if topic_end + 2 > end or (topic_size > TOPIC_SIZE_MAX and magic == MAGIC_V1):
        raise RecordError(f"record at {at} has a topic of {topic_size} bytes in {size}")
    (properties_size,) = _SHORT.unpack_from(buffer, topic_end)
    if topic_end + 2 + properties_size != end:
        raise RecordError(
            f"record at {at} has properties of {properties_size} bytes where {end - topic_end - 2} are left of {size}"
        )
    try:
        return str(buffer[start:topic_end], "utf-8"), topic_end
    except UnicodeDecodeError as error:
        data = bytes(buffer[start:topic_end])
        raise RecordError(f"record at {at} has a topic that is not UTF-8: {data!r}") from error


def truncated(buffer: Buffer, at: int) -> RecordError:
    return RecordError(f"record at {at} is truncated: {len(buffer) - at} bytes, at least {RECORD_SIZE_MIN} needed")


def wrong_crc(at: int, declared: int, found: int) -> RecordError:
    return RecordError(f"record at {at} has CRC {declared:#010x}, but its body has {found:#010x}")
