"""Encodes many messages, of any topics, from columns: a list per field with one element per message."""

import functools
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final, Self, TypeAlias

from zlib_ng import zlib_ng

from kerolox.message import sysflag
from kerolox.message.hosts import IPV4_HOST_SIZE
from kerolox.message.message import CRC_MASK, Message
from kerolox.message.records.layout import HEADS, LENGTH_SIZE, position
from kerolox.message.records.record import encode, packed_topic

# Adjacent records, and the start of each.
Run: TypeAlias = tuple[bytearray, Sequence[int]]

_CRC_AT: Final = position("crc")
_FLAG_AT: Final = position("flag")
_BORN_TIMESTAMP_AT: Final = position("born_timestamp")
_BORN_HOST_AT: Final = position("born_host")
_pack_size = struct.Struct(">h").pack


@dataclass(slots=True)
class MessageColumns:
    """Messages that differ in any of these fields, and have the store host in common."""

    # Topic and queue id.
    queues: list[tuple[str, int]] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    sys_flags: list[int] = field(default_factory=list)
    born_timestamps: list[int] = field(default_factory=list)
    born_hosts: list[bytes] = field(default_factory=list)
    reconsume_times: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    properties: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.queues)

    def part(self, first: int, end: int) -> Self:
        return type(self)(*(getattr(self, name)[first:end] for name in self.__slots__))


def encode_columns(store_host: bytes, messages: MessageColumns, size_max: int) -> list[Run]:
    """Encode messages, as `encode` would, but faster for many. The fields must fit; they are not checked.

    A run has at most `size_max` bytes, or one record. If its starts are a range, all records have one size and hosts of
    equal length.
    """
    if _are_even(messages):
        return _encode_even(store_host, messages, size_max)
    return _encode_mixed(store_host, messages, size_max)


def _are_even(messages: MessageColumns) -> bool:
    """Whether the records have one size and layout, and differ only in queue id, times, host, body and properties."""
    sizes = (messages.bodies, messages.properties, messages.born_hosts)
    constants = (messages.flags, messages.sys_flags, messages.reconsume_times)
    return (
        len(messages) > 1
        and all(_are_equal(list(map(len, column))) for column in sizes)
        and all(map(_are_equal, constants))
        and _are_equal([topic for topic, _ in messages.queues])
    )


def _are_equal(values: Sequence[Any]) -> bool:
    return values.count(values[0]) == len(values)


def _encode_even(store_host: bytes, messages: MessageColumns, size_max: int) -> list[Run]:
    """Pack each record with one call: the fields that differ, and between them constant bytes of the first record."""
    bodies, properties, born_hosts = messages.bodies, messages.properties, messages.born_hosts
    topic, queue_id = messages.queues[0]
    first = Message(
        topic,
        bodies[0],
        properties[0],
        queue_id,
        messages.flags[0],
        messages.sys_flags[0],
        born_host=born_hosts[0],
        store_host=store_host,
        reconsume_times=messages.reconsume_times[0],
    )
    record = bytes(encode(first, len(first.body)))
    size, host_end = len(record), _BORN_HOST_AT + len(born_hosts[0])
    properties_at = size - len(properties[0])
    body_end = properties_at - len(packed_topic(topic)[1]) - LENGTH_SIZE
    body_at = body_end - len(bodies[0])
    packed = map(
        _packing(host_end - _BORN_HOST_AT, body_at - host_end, body_end - body_at, properties_at - body_end, size),
        repeat(record[:_CRC_AT]),
        [crc & CRC_MASK for crc in map(zlib_ng.crc32, bodies)],
        [queue_id for _, queue_id in messages.queues],
        repeat(record[_FLAG_AT:_BORN_TIMESTAMP_AT]),
        messages.born_timestamps,
        born_hosts,
        repeat(record[host_end:body_at]),
        bodies,
        repeat(record[body_end:properties_at]),
        properties,
    )
    count = max(size_max // size, 1)
    if count >= len(messages):
        return [(bytearray().join(packed), range(0, len(messages) * size, size))]
    records = list(packed)
    parts = [records[at : at + count] for at in range(0, len(records), count)]
    return [(bytearray().join(part), range(0, len(part) * size, size)) for part in parts]


@functools.lru_cache(maxsize=256)
def _packing(host_size: int, before_body: int, body_size: int, topic_size: int, size: int) -> Callable[..., bytes]:
    """Return a function that packs CRC, queue id, born timestamp, born host, body, properties and the constants."""
    head = f">{_CRC_AT}sIi{_BORN_TIMESTAMP_AT - _FLAG_AT}sq{host_size}s{before_body}s{body_size}s{topic_size}s"
    return struct.Struct(f"{head}{size - struct.calcsize(head)}s").pack


def _encode_mixed(store_host: bytes, messages: MessageColumns, size_max: int) -> list[Run]:
    store_host_bit = (len(store_host) != IPV4_HOST_SIZE) << 1
    crc32, pack_size = zlib_ng.crc32, _pack_size
    runs: list[Run] = []
    pieces: list[bytes] = []
    starts: list[int] = []
    start = 0
    rows: Iterable[tuple[Any, ...]] = zip(*(getattr(messages, name) for name in messages.__slots__), strict=True)
    for (topic, queue_id), flag, sys_flag, born_timestamp, born_host, reconsume_times, body, properties in rows:
        magic, topic_bytes = packed_topic(topic)
        hosts = (len(born_host) != IPV4_HOST_SIZE) | store_host_bit
        head = HEADS[hosts]
        body_size, properties_size = len(body), len(properties)
        size = head.size + body_size + len(topic_bytes) + LENGTH_SIZE + properties_size
        if start + size > size_max and starts:
            runs.append((bytearray().join(pieces), tuple(starts)))
            pieces, starts, start = [], [], 0
        packed = head.pack(
            size,
            magic,
            crc32(body) & CRC_MASK,
            queue_id,
            flag,
            0,
            0,
            sys_flag & ~sysflag.HOSTS_MASK | hosts << 4,
            born_timestamp,
            born_host,
            0,
            store_host,
            reconsume_times,
            0,
            body_size,
        )
        pieces += (packed, body, topic_bytes, pack_size(properties_size), properties)
        starts.append(start)
        start += size
    runs.append((bytearray().join(pieces), tuple(starts)))
    return runs
