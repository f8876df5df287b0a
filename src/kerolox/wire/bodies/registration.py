"""What a broker registers: its topics and filter servers, as JSON or in the compressed form.

Compressed, the body is one zlib stream of:

    int32 + n   DataVersion, as JSON
    int32       count of topics, then for each int32 + n: `name read write perm filterType [attributes]`
    int32 + n   filter servers, as a JSON array
    int32       (5.0 and later) count of mappings, then for each int32 + n: TopicQueueMappingInfo, as JSON
"""

import struct
import zlib

import msgspec

from kerolox.codes import Version
from kerolox.errors import ProtocolError
from kerolox.runtime import fastjson
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable, TopicQueueMappingInfo

# Room for a hundred thousand topics; what inflates to more was made to hurt.
INFLATED_SIZE_MAX = 8 * 1024 * 1024

_SIZE = struct.Struct(">i")


class RegisterBrokerBody(Body):
    filter_server_list: list[str] | None = None
    topic_config_serialize_wrapper: TopicConfigTable = msgspec.field(default_factory=TopicConfigTable)


def crc32(body: bytes) -> int:
    """Returns the checksum that REGISTER_BROKER carries; Java keeps 31 bits of it."""
    return zlib.crc32(body) & 0x7FFFFFFF


def compress(body: RegisterBrokerBody, version: int, *, with_attributes: bool = True) -> bytes:
    """Returns the compressed form, as a broker of `version` writes it.

    NameServers before 5.0 cannot read a topic with attributes, and later ones do without them.
    """
    with_attributes &= version >= Version.V5_0_0
    table = body.topic_config_serialize_wrapper
    mappings = table.topic_queue_mapping_info_map or {}
    parts = [_sized(table.data_version.encode()), _SIZE.pack(len(table.topic_config_table))]
    parts += [
        _sized(_topic_text(topic, with_attributes=with_attributes).encode())
        for topic in table.topic_config_table.values()
    ]
    parts.append(_sized(fastjson.encode(body.filter_server_list or [])))
    if version >= Version.V5_0_0:
        parts.append(_SIZE.pack(len(mappings)))
        parts += [_sized(mapping.encode()) for mapping in mappings.values()]
    return zlib.compress(b"".join(parts), 9)


def decompress(data: bytes, version: int) -> RegisterBrokerBody:
    """Returns what a broker of `version` compressed, or raises ProtocolError."""
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, INFLATED_SIZE_MAX)
    except zlib.error as error:
        raise ProtocolError(f"registration cannot be inflated: {error}") from error
    if inflater.unconsumed_tail:
        raise ProtocolError(f"registration inflates to more than {INFLATED_SIZE_MAX} bytes")
    if not inflater.eof:
        raise ProtocolError(f"registration is cut off after {len(data)} bytes")
    reader = _Reader(plain)
    data_version = DataVersion.decode(reader.piece())
    topics = [_topic(reader.piece()) for _ in range(reader.number())]
    filter_servers = fastjson.decode(reader.piece() or b"[]", list[str])
    table = TopicConfigTable(
        data_version=data_version, topic_config_table={topic.topic_name: topic for topic in topics}
    )
    if version >= Version.V5_0_0 and not reader.is_at_end:
        mappings = [TopicQueueMappingInfo.decode(reader.piece()) for _ in range(reader.number())]
        table.topic_queue_mapping_info_map = {
            mapping.topic: mapping for mapping in mappings if mapping.topic is not None
        }
    return RegisterBrokerBody(filter_server_list=filter_servers, topic_config_serialize_wrapper=table)


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def _topic_text(topic: TopicConfig, *, with_attributes: bool) -> str:
    text = f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} {topic.topic_filter_type}"
    return f"{text} {fastjson.encode(topic.attributes or {}).decode()}" if with_attributes else text


def _topic(text: bytes) -> TopicConfig:
    try:
        name, read, write, perm, filter_type, *attributes = text.decode().split(" ", 5)
        fields = {
            "topicName": name,
            "readQueueNums": read,
            "writeQueueNums": write,
            "perm": perm,
            "topicFilterType": filter_type,
            "attributes": fastjson.decode(attributes[0].encode(), dict[str, str]) if any(attributes) else None,
        }
        return msgspec.convert(fields, TopicConfig, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise ProtocolError(f"not a topic: {text[:80]!r}") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._data)

    def number(self) -> int:
        try:
            (number,) = _SIZE.unpack_from(self._data, self._position)
        except struct.error as error:
            raise ProtocolError("registration is cut off") from error
        self._position += 4
        # Every item takes at least four bytes, so a larger count is a lie.
        if not 0 <= number <= len(self._data) - self._position:
            raise ProtocolError(f"{number} announced, {len(self._data) - self._position} bytes left")
        return int(number)

    def piece(self) -> bytes:
        size = self.number()
        start = self._position
        self._position += size
        return self._data[start : self._position]
