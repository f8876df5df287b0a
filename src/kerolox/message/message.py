"""A message in memory (MessageExt)."""

import msgspec
from zlib_ng import zlib_ng

from kerolox.message import ids, properties, property_names
from kerolox.message.hosts import NO_HOST, Host

CRC_MASK = 0x7FFFFFFF


class Message(msgspec.Struct, gc=False, eq=False):
    """All fields of a record. Properties are kept as bytes and parsed on first use."""

    topic: str
    body: bytes
    properties: bytes = b""
    queue_id: int = 0
    # An application-defined number.
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: Host = NO_HOST
    store_timestamp: int = 0
    store_host: Host = NO_HOST
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    # Cache of `parsed`, and the bytes it was parsed from: it is invalid if `properties` was set since.
    _parsed: dict[str, str] | None = None
    _parsed_from: bytes = b""

    @property
    def parsed(self) -> dict[str, str]:
        """Properties by name. Do not modify the dict: `properties` would not follow."""
        if self._parsed is None or self._parsed_from is not self.properties:
            self._parsed = properties.parse(self.properties)
            self._parsed_from = self.properties
        return self._parsed

    def get(self, name: str) -> str | None:
        return self.parsed.get(name)

    @property
    def tags(self) -> str | None:
        return self.get(property_names.TAGS)

    @property
    def keys(self) -> list[str]:
        return [key for key in (self.get(property_names.KEYS) or "").split(" ") if key]

    @property
    def offset_id(self) -> str:
        """Id made of store host and physical offset."""
        return ids.offset_id(self.store_host, self.physical_offset)

    @property
    def message_id(self) -> str:
        """Unique id given by the producer, otherwise the offset id."""
        return self.get(property_names.UNIQ_KEY) or self.offset_id

    @property
    def body_crc(self) -> int:
        return zlib_ng.crc32(self.body) & CRC_MASK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return msgspec.structs.astuple(self)[:-2] == msgspec.structs.astuple(other)[:-2]
