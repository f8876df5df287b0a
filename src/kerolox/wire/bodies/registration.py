"""Body of REGISTER_BROKER: topics and filter servers, as JSON or compressed (RegisterBrokerBody).

The compressed form is one zlib stream of:

    int32 + n   DataVersion, as JSON
    int32       count of topics, then for each int32 + n: `name read write perm filterType [attributes]`
    int32 + n   filter servers, as a JSON array
    int32       (5.0 and later) count of mappings, then for each int32 + n: TopicQueueMappingInfo, as JSON
"""

import struct
import zlib
from typing import TypeVar

import msgspec
from zlib_ng import zlib_ng

from kerolox.codes import Version
from kerolox.errors import ProtocolError
from kerolox.runtime.cooperative import Steps, run_at_once
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.body import REQUEST, Body
from kerolox.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable, TopicQueueMappingInfo

# Topics in one registration; also the default of topicNumsMax.
TOPICS_MAX = 100_000
# Enough for TOPICS_MAX topics. A larger inflated size means a decompression bomb.
INFLATED_SIZE_MAX = 8 * 1024 * 1024
# A topic has at most two objects (itself and its attributes) and nine members.
_OBJECTS_MAX = 2 * TOPICS_MAX + 10
_VALUES_MAX = 12 * TOPICS_MAX

# Work per step, so that a large registration does not block the event loop: each of these takes 5 to 15 ms.
_INFLATE_STEP_SIZE = 1024 * 1024
_STEP_COST = 512 * 1024
_QUOTE_STEP_SIZE = 32 * 1024
# Costs in bytes of JSON that decode in the same time: an entry of a table, the text of a topic, a mapping, and a byte
# that is not standard JSON.
_ENTRY_COST = 64
_TOPIC_COST = 256
_MAPPING_COST = 512
_DIALECT_COST = 32

# Limits of one topic or mapping, and of a whole body with unquoted integer keys, which pure Python has to convert.
_ENTRY_SIZE_MAX = 64 * 1024
_QUOTED_SIZE_MAX = 4 * 1024 * 1024

_SIZE = struct.Struct(">i")
_NULL = b"null"
B = TypeVar("B", bound=Body)


class RegisterBrokerBody(Body):
    filter_server_list: list[str] | None = None
    topic_config_serialize_wrapper: TopicConfigTable = msgspec.field(default_factory=TopicConfigTable)


def crc32(body: bytes) -> int:
    """Return the bodyCrc32 of REGISTER_BROKER: CRC-32 without its highest bit, as in Java."""
    return zlib_ng.crc32(body) & 0x7FFFFFFF


def compress(body: RegisterBrokerBody, version: int, *, with_attributes: bool = True) -> bytes:
    """Return the compressed form, as a broker of `version` writes it.

    NameServers before 5.0 cannot decode a topic with attributes; later ones do not need them.
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
    """Return the decoded body of a broker of `version`, or raise ProtocolError."""
    return run_at_once(decompressing(data, version))


def decompressing(data: bytes, version: int) -> Steps[RegisterBrokerBody]:
    """Decompress in steps, for `runtime.cooperative`."""
    reader = _Reader((yield from _inflating(data)))
    data_version = DataVersion.decode(reader.piece(), REQUEST)
    pace = _Pace()
    topics: dict[str, TopicConfig] = {}
    for _ in range(_checked_count(reader.number())):
        piece = reader.piece()
        topic = _topic(piece)
        topics[topic.topic_name] = topic
        if pace.is_due(_TOPIC_COST + len(piece)):
            yield
    filter_servers = fastjson.decode(reader.piece() or b"[]", list[str], REQUEST)
    table = TopicConfigTable(data_version=data_version, topic_config_table=topics)
    if version >= Version.V5_0_0 and not reader.is_at_end:
        mappings: dict[str, TopicQueueMappingInfo] = {}
        for _ in range(_checked_count(reader.number())):
            piece = reader.piece()
            mapping = TopicQueueMappingInfo.decode(piece, REQUEST)
            if mapping.topic is not None:
                mappings[mapping.topic] = mapping
            if pace.is_due(_MAPPING_COST + _DIALECT_COST * len(piece)):
                yield
        table.topic_queue_mapping_info_map = mappings
    return RegisterBrokerBody(filter_server_list=filter_servers, topic_config_serialize_wrapper=table)


def _inflating(data: bytes) -> Steps[bytes]:
    inflater = zlib.decompressobj()
    parts: list[bytes] = []
    size = 0
    while not inflater.eof:
        try:
            part = inflater.decompress(inflater.unconsumed_tail if parts else data, _INFLATE_STEP_SIZE)
        except zlib.error as error:
            raise ProtocolError(f"registration cannot be inflated: {error}") from error
        if not part and not inflater.eof:
            raise ProtocolError(f"registration is cut off after {len(data)} bytes")
        parts.append(part)
        size += len(part)
        if size > INFLATED_SIZE_MAX:
            raise ProtocolError(f"registration inflates to more than {INFLATED_SIZE_MAX} bytes")
        if not inflater.eof:
            yield
    return b"".join(parts)


class _RawTable(msgspec.Struct, rename="camel"):
    """TopicConfigTable with topics that are not decoded yet."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_config_table: dict[str, msgspec.Raw] = {}
    mapping_data_version: DataVersion | None = None
    topic_queue_mapping_info_map: dict[str, msgspec.Raw] | None = None


class _RawBody(msgspec.Struct, rename="camel"):
    filter_server_list: msgspec.Raw = msgspec.Raw(_NULL)
    topic_config_serialize_wrapper: _RawTable = msgspec.field(default_factory=_RawTable)


def check_counts(data: bytes) -> None:
    """Refuse a JSON registration that seems to have more than TOPICS_MAX topics."""
    # Each object takes at least a byte, and counting takes longer than everything else if few topics have changed.
    if len(data) <= _OBJECTS_MAX:
        return
    objects, values = data.count(b"{"), data.count(b",") + data.count(b"[")
    if objects > _OBJECTS_MAX or values > _VALUES_MAX:
        raise ProtocolError(
            f"registration of {objects} objects and {values} values, at most {TOPICS_MAX} topics allowed"
        )


def decoding(data: bytes, *, is_table: bool = False) -> Steps[RegisterBrokerBody]:
    """Decode a JSON registration of any size in steps. With `is_table`, `data` is only the topic table."""
    yield
    try:
        raw = _decode_raw(data, is_table=is_table)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"not a registration: {error}") from error
    except fastjson.DECODE_ERRORS:
        data = yield from _quoting_keys(data)
        try:
            raw = _decode_raw(data, is_table=is_table)
        except fastjson.DECODE_ERRORS as error:
            raise ProtocolError(f"not a registration: {error}") from error
    yield
    servers, table = bytes(raw.filter_server_list), raw.topic_config_serialize_wrapper
    topics = yield from _decoding_values(table.topic_config_table, TopicConfig)
    mappings = None
    if table.topic_queue_mapping_info_map is not None:
        mappings = yield from _decoding_values(table.topic_queue_mapping_info_map, TopicQueueMappingInfo)
    return RegisterBrokerBody(
        None if servers == _NULL else fastjson.decode(servers, list[str], REQUEST),
        TopicConfigTable(table.data_version, topics, table.mapping_data_version, mappings),
    )


_raw_body = msgspec.json.Decoder(_RawBody, strict=False)
_raw_table = msgspec.json.Decoder(_RawTable, strict=False)


def _decode_raw(data: bytes, *, is_table: bool) -> _RawBody:
    if is_table:
        return _RawBody(topic_config_serialize_wrapper=_raw_table.decode(data))
    return _raw_body.decode(data)


def _decoding_values(table: dict[str, msgspec.Raw], kind: type[B]) -> Steps[dict[str, B]]:
    pace = _Pace()
    decoder = msgspec.json.Decoder(kind, strict=False)
    decoded: dict[str, B] = {}
    for name, raw in table.items():
        size = len(bytes(raw))
        if size > _ENTRY_SIZE_MAX:
            raise ProtocolError(f"{kind.__name__} of {size} bytes exceeds the limit of {_ENTRY_SIZE_MAX}")
        try:
            decoded[name] = decoder.decode(raw)
        except fastjson.DECODE_ERRORS as error:
            raise ProtocolError(f"not a {kind.__name__}: {error}") from error
        if pace.is_due(_ENTRY_COST + size):
            yield
    return decoded


def _quoting_keys(data: bytes) -> Steps[bytes]:
    """Return the document with quoted integer keys: fastjson leaves those of static topic mappings unquoted.

    Each step converts one part. Parts are split after a quote, which is never inside an integer key.
    """
    if len(data) > _QUOTED_SIZE_MAX:
        raise ProtocolError(f"not standard JSON, and of {len(data)} bytes; at most {_QUOTED_SIZE_MAX} are read")
    parts: list[bytes] = []
    start = 0
    while start < len(data):
        end = data.find(b'"', start + _QUOTE_STEP_SIZE) + 1 or len(data)
        if end - start > 2 * _QUOTE_STEP_SIZE:
            raise ProtocolError("not a registration: neither standard JSON nor fastjson's")
        parts.append(fastjson.quote_integer_keys(data[start:end]))
        start = end
        yield
    return b"".join(parts)


class _Pace:
    """Decides by the accumulated cost when to yield to the event loop. The unit is the decoding of one byte of JSON."""

    def __init__(self) -> None:
        self._left = _STEP_COST

    def is_due(self, cost: int) -> bool:
        self._left -= cost
        if self._left > 0:
            return False
        self._left = _STEP_COST
        return True


def _checked_count(count: int) -> int:
    if count > TOPICS_MAX:
        raise ProtocolError(f"registration of {count} topics, at most {TOPICS_MAX} allowed")
    return count


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
            "attributes": fastjson.decode(attributes[0].encode(), dict[str, str], REQUEST) if any(attributes) else None,
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
        # Every item takes at least one byte, so a larger count is invalid.
        if not 0 <= number <= len(self._data) - self._position:
            raise ProtocolError(f"{number} announced, {len(self._data) - self._position} bytes left")
        return int(number)

    def piece(self) -> bytes:
        size = self.number()
        start = self._position
        self._position += size
        return self._data[start : self._position]
