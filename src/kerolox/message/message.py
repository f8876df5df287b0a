"""A message in memory."""

import msgspec
from zlib_ng import zlib_ng

from kerolox.message import ids, names, properties
from kerolox.message.hosts import NOWHERE, Host

CRC_MASK = 0x7FFFFFFF


class Message(msgspec.Struct, gc=False, eq=False):
    """All that a record says. The properties are kept as the bytes they came in, and parsed when somebody asks."""

    topic: str
    body: bytes
    properties: bytes = b""
    queue_id: int = 0
    # The user's own number, carried untouched.
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: Host = NOWHERE
    store_timestamp: int = 0
    store_host: Host = NOWHERE
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    # What was parsed, and from which bytes: whoever sets other properties need not think of it.
    _parsed: dict[str, str] | None = None
    _parsed_from: bytes = b""

    @property
    def parsed(self) -> dict[str, str]:
        """The properties by name; not to be changed, for the bytes would not follow."""
        if self._parsed is None or self._parsed_from is not self.properties:
            self._parsed = properties.parse(self.properties)
            self._parsed_from = self.properties
        return self._parsed

    def get(self, name: str) -> str | None:
        return self.parsed.get(name)

    @property
    def tags(self) -> str | None:
        return self.get(names.TAGS)

    @property
    def keys(self) -> list[str]:
        return [key for key in (self.get(names.KEYS) or "").split(" ") if key]

    @property
    def offset_id(self) -> str:
        """The id that says where the message lies."""
        return ids.offset_id(self.store_host, self.physical_offset)

    @property
    def message_id(self) -> str:
        """The id that the producer gave it, or else where it lies."""
        return self.get(names.UNIQ_KEY) or self.offset_id

    @property
    def body_crc(self) -> int:
        return zlib_ng.crc32(self.body) & CRC_MASK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return msgspec.structs.astuple(self)[:-2] == msgspec.structs.astuple(other)[:-2]
