"""The layout of a record, declared once: structs, positions and numpy types are derived from it.

A record is its head, which ends with the size of the body; the body; the topic, after its length; and the properties,
after their length. The hosts of the head have 8 bytes (IPv4) or 20 (IPv6), as two bits of sysFlag tell.
"""

import struct
from collections.abc import Collection
from typing import Final

# Name and struct format of each field; a host has the size that `HOST_SIZES` gives.
_FIELDS: Final = (
    ("size", "I"),
    ("magic", "I"),
    ("crc", "I"),
    ("queue_id", "i"),
    ("flag", "i"),
    ("queue_offset", "q"),
    ("physical_offset", "q"),
    ("sys_flag", "i"),
    ("born_timestamp", "q"),
    ("born_host", "s"),
    ("store_timestamp", "q"),
    ("store_host", "s"),
    ("reconsume_times", "i"),
    ("prepared_transaction_offset", "q"),
    ("body_size", "i"),
)
# Sizes of born host and store host, by the two bits of sysFlag: both IPv4, born host IPv6, store host IPv6, both IPv6.
HOST_SIZES: Final = ((8, 8), (20, 8), (8, 20), (20, 20))
# The length of the properties, which precedes them.
LENGTH_SIZE: Final = 2


def fields(hosts: int = 0) -> list[tuple[str, str]]:
    """Return name and struct format of each field of the head; `hosts` is an index of HOST_SIZES."""
    born, store = HOST_SIZES[hosts]
    sizes = {"born_host": f"{born}s", "store_host": f"{store}s"}
    return [(name, sizes.get(name, kind)) for name, kind in _FIELDS]


def head(names: Collection[str] | None = None, hosts: int = 0) -> struct.Struct:
    """Return a Struct of the fields with these names, up to the last of them, that skips the others; None for all."""
    parts, wanted_end = [], 0
    for name, kind in fields(hosts):
        is_wanted = names is None or name in names
        parts.append(kind if is_wanted else f"{struct.calcsize('>' + kind)}x")
        if is_wanted:
            wanted_end = len(parts)
    return struct.Struct(">" + "".join(parts[:wanted_end]))


def position(name: str, hosts: int = 0) -> int:
    """Return where a field begins."""
    at = 0
    for field, kind in fields(hosts):
        if field == name:
            return at
        at += struct.calcsize(">" + kind)
    raise KeyError(name)


# Structs of the whole head, by the two bits of sysFlag.
HEADS: Final = tuple(head(hosts=hosts) for hosts in range(len(HOST_SIZES)))
# Position of the byte of sysFlag with the two bits, which are its fifth and sixth.
HOSTS_AT: Final = position("sys_flag") + 3
# Position of the store timestamp, by the bit of the born host.
STORE_TIMESTAMP_AT: Final = (position("store_timestamp"), position("store_timestamp", 1))
# Size, magic and physical offset: what tells that there is a record.
IDENTITY: Final = head(("size", "magic", "physical_offset"))
# The smallest record: a head, the length of the topic (one byte) and that of the properties.
RECORD_SIZE_MIN: Final = HEADS[0].size + 1 + LENGTH_SIZE
# The head of a message in a batch: size, flag and size of the body.
PART_HEAD: Final = struct.Struct(">I8xii")
