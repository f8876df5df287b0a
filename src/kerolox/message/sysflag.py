"""Bits of a message's sysFlag (MessageSysFlag)."""

from enum import IntEnum
from typing import Final

COMPRESSED: Final = 0x001
MULTI_TAGS: Final = 0x002

TRANSACTION_MASK: Final = 0x00C
NOT_TRANSACTION: Final = 0x000
PREPARED: Final = 0x004
COMMIT: Final = 0x008
ROLLBACK: Final = 0x00C

BORN_HOST_V6: Final = 0x010
STORE_HOST_V6: Final = 0x020
HOSTS_MASK: Final = 0x030

# The body is a batch in one record (BatchCQ topics), which the consumer unpacks.
NEED_UNWRAP: Final = 0x040
INNER_BATCH: Final = 0x080

COMPRESSION_MASK: Final = 0x700


class CompressionType(IntEnum):
    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


# 0 means zlib: clients before 4.9.4 and in most other languages write it.
_COMPRESSION_TYPES = (CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD, CompressionType.ZLIB)


def transaction_type(sys_flag: int) -> int:
    """Return NOT_TRANSACTION, PREPARED, COMMIT or ROLLBACK."""
    return sys_flag & TRANSACTION_MASK


def with_transaction_type(sys_flag: int, kind: int) -> int:
    return sys_flag & ~TRANSACTION_MASK | kind


def is_queued(sys_flag: int) -> bool:
    """Whether a record with this flag gets a queue offset and an entry in a consume queue."""
    return sys_flag & TRANSACTION_MASK in (NOT_TRANSACTION, COMMIT)


def is_compressed(sys_flag: int) -> bool:
    return bool(sys_flag & COMPRESSED)


def compression_type(sys_flag: int) -> CompressionType | None:
    """Return the compression type, which applies if `is_compressed`; None if the bits are invalid."""
    number = (sys_flag & COMPRESSION_MASK) >> 8
    return _COMPRESSION_TYPES[number] if number < len(_COMPRESSION_TYPES) else None


def with_compression(sys_flag: int, kind: CompressionType) -> int:
    return sys_flag & ~COMPRESSION_MASK | kind << 8 | COMPRESSED


def without_compression(sys_flag: int) -> int:
    """Return the flag of a decompressed body; the type bits stay, as in Java."""
    return sys_flag & ~COMPRESSED
