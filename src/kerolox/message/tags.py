"""String.hashCode of Java: tags codes of consume queues and key hashes of the index."""

import functools
import struct
from typing import Final

_BITS = 0xFFFFFFFF
_CHUNK = 64
_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(_CHUNK + 1))

# The hash is a number in base 31 whose digits, the bytes, may exceed 30. Split into remainders and carries, both parts
# are valid base-31 numbers, which int() parses at C speed.
_DIGITS = b"0123456789abcdefghijklmnopqrstu"
_REMAINDERS = bytes(_DIGITS[byte % 31] for byte in range(256))
_CARRIES = bytes(_DIGITS[byte // 31] for byte in range(256))

# A unique id has 32 characters: 20 are the same for all ids of a process, 8 for all of a millisecond, and the last 4
# are a counter.
_UNIQUE_KEY_SIZE = 32
_UNIQUE_HEAD_SIZE = 20
_UNIQUE_TIME_END = 28

# Longer texts are not cached, so that hostile input cannot make the caches large.
SHORT_TAG_SIZE_MAX: Final = 64
_TOPIC_SIZE_MAX = 255


def java_hash(text: str) -> int:
    """Return String.hashCode: over UTF-16 code units, wrapping in 32 bits, signed."""
    hashed = _hash_ascii(text.encode()) if text.isascii() else _hash_units(text)
    return (hashed ^ 0x80000000) - 0x80000000


def tags_code(tag: bytes) -> int:
    """Return the hash that stands for a tag in a consume queue; 0 for no tag."""
    return short_tags_code(tag) if len(tag) <= SHORT_TAG_SIZE_MAX else _signed_hash(tag)


def key_hash(topic: str, key: bytes) -> int:
    """Return the hash of `topic#key` as in the key index: never negative."""
    if len(key) == _UNIQUE_KEY_SIZE and len(topic) <= _TOPIC_SIZE_MAX and key.isascii():
        # Most keys are unique ids, and often only the last four characters differ from the previous one.
        a, b, c, d = key[_UNIQUE_TIME_END:]
        hashed = _unique_head_hash(topic, key[:_UNIQUE_TIME_END]) + a * 29791 + b * 961 + c * 31 + d & _BITS
        return hashed if hashed < 0x80000000 else -hashed & 0x7FFFFFFF
    prefix = topic_hash(topic)
    if key.isascii():
        hashed = prefix * _power(len(key)) + _hash_ascii(key) & _BITS
    else:
        text = key.decode("utf-8", "replace")
        hashed = prefix * _power(len(text.encode("utf-16-le")) >> 1) + _hash_units(text) & _BITS
    # Math.abs(Integer.MIN_VALUE) is negative in Java, and the index uses 0 instead; so does the mask.
    return hashed if hashed < 0x80000000 else -hashed & 0x7FFFFFFF


def topic_hash(topic: str) -> int:
    """Return the share of `topic#` in the hash of a key, before it is multiplied by a power of 31."""
    return _prefix_hash(topic, b"") if len(topic) <= _TOPIC_SIZE_MAX else _unsigned_hash(topic.encode() + b"#")


@functools.lru_cache(maxsize=8192)
def _prefix_hash(topic: str, head: bytes) -> int:
    return _unsigned_hash(topic.encode() + b"#" + head)


@functools.lru_cache(maxsize=8192)
def _unique_head_hash(topic: str, head: bytes) -> int:
    """Return the share of the hash of a unique id that comes from all but its last four characters."""
    prefix = _prefix_hash(topic, head[:_UNIQUE_HEAD_SIZE])
    hashed = prefix * _POWERS[_UNIQUE_TIME_END - _UNIQUE_HEAD_SIZE] + _hash_ascii(head[_UNIQUE_HEAD_SIZE:])
    return hashed * _POWERS[_UNIQUE_KEY_SIZE - _UNIQUE_TIME_END] & _BITS


@functools.lru_cache(maxsize=8192)
def short_tags_code(tag: bytes) -> int:
    """Return the tags code of a tag of at most SHORT_TAG_SIZE_MAX bytes, cached."""
    return _signed_hash(tag)


def _signed_hash(data: bytes) -> int:
    return (_unsigned_hash(data) ^ 0x80000000) - 0x80000000


def _unsigned_hash(data: bytes) -> int:
    # Invalid UTF-8 is replaced, as in Java when it decodes the properties.
    return _hash_ascii(data) if data.isascii() else _hash_units(data.decode("utf-8", "replace"))


def _hash_ascii(data: bytes) -> int:
    size = len(data)
    if size <= _CHUNK:
        if not size:
            return 0
        return int(data.translate(_REMAINDERS), 31) + 31 * int(data.translate(_CARRIES), 31) & _BITS
    hashed = 0
    for start in range(0, size, _CHUNK):
        chunk = data[start : start + _CHUNK]
        hashed = hashed * _POWERS[len(chunk)] + _hash_ascii(chunk) & _BITS
    return hashed


def _hash_units(text: str) -> int:
    data = text.encode("utf-16-le", "surrogatepass")
    hashed = 0
    for (unit,) in struct.iter_unpack("<H", data):
        hashed = hashed * 31 + unit & _BITS
    return hashed


def _power(exponent: int) -> int:
    return _POWERS[exponent] if exponent <= _CHUNK else pow(31, exponent, 1 << 32)
