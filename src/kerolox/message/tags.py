"""String.hashCode of Java: tags codes of consume queues and key hashes of the index."""

import functools
import struct
import sys
from array import array
from collections.abc import Sequence
from operator import getitem
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

# Many keys are hashed together as one large integer in which each key has a lane of this many bytes: a unique id takes
# 32, or 56 with an IPv6 address. Each step combines neighbours, first bytes, then pairs and so on, as
# left * 31**n + right; no intermediate value overflows its part of a lane.
_LANE_SIZES: Final = (8, 16, 32, 64)
_LANES: Final = 128
# Fewer keys of several topics than this are hashed without looking for a common prefix.
_MANY: Final = 32


def _steps(lane_size: int) -> tuple[tuple[int, int, int], ...]:
    """Return shift, mask and power of 31 for each step that combines neighbours."""
    sizes = (size for size in (1, 2, 4, 8, 16, 32) if size < lane_size)
    return tuple(
        (
            8 * size,
            int.from_bytes(
                (bytes(2 * size - min(size, 4)) + b"\xff" * min(size, 4)) * (_LANES * lane_size // (2 * size))
            ),
            _POWERS[size],
        )
        for size in sizes
    )


_STEPS = {size: _steps(size) for size in _LANE_SIZES}

# -2**31, of which the absolute value does not fit.
_INT_MIN = array("i", [-0x80000000]).tobytes()

# The number that is 1 in each lane.
_ONES = {size: int.from_bytes((bytes(size - 1) + b"\1") * _LANES) for size in _STEPS}


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
    prefix = _topic_hash(topic)
    if key.isascii():
        hashed = prefix * _power(len(key)) + _hash_ascii(key) & _BITS
    else:
        text = key.decode("utf-8", "replace")
        hashed = prefix * _power(len(text.encode("utf-16-le")) >> 1) + _hash_units(text) & _BITS
    # Math.abs(Integer.MIN_VALUE) is negative in Java, and the index uses 0 instead; so does the mask.
    return hashed if hashed < 0x80000000 else -hashed & 0x7FFFFFFF


def key_hashes(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    """Return the `key_hash` of each pair of topic and key; three times as fast for many."""
    count, sizes = len(keys), list(map(len, keys))
    is_equal_size = count > 1 and sizes.count(sizes[0]) == count
    words = array("i")
    if is_equal_size and topics.count(topics[0]) == count:
        words = _equal_size_words(keys, _topic_hash(topics[0]))
    if not words:
        if max(sizes, default=0) > _LANE_SIZES[-1] or not b"".join(keys).isascii():
            return _mixed_hashes(topics, keys)
        words = _equal_size_words(keys, 0) if is_equal_size and count >= _MANY else _words(keys, sizes)
        prefixes = {topic: _topic_prefixes(topic) for topic in set(topics)}
        words = _sums(words, array("I", list(map(getitem, map(prefixes.__getitem__, topics), sizes))))
    # As in `key_hash`.
    hashes = list(map(abs, words))
    return [hashed & 0x7FFFFFFF for hashed in hashes] if _INT_MIN in words.tobytes() else hashes


def _words(keys: Sequence[bytes], sizes: Sequence[int]) -> "array[int]":
    """Return the hashes of keys without their topics; no key may be too long for a lane."""
    lane_size = _lane_size(max(sizes, default=0))
    # Leading zeros do not change the hash.
    text = b"".join([key.rjust(lane_size, b"\0") for key in keys])
    words = array("i")
    for start in range(0, len(text), _LANES * lane_size):
        block = text[start : start + _LANES * lane_size]
        words += _last_words(_combined(block, lane_size), len(block), lane_size)
    return words


def _sums(left: "array[int]", right: "array[int]") -> "array[int]":
    """Return the sums of the elements in 32 bits, signed."""
    mask = int.from_bytes((bytes(4) + b"\xff" * 4) * ((len(left) + 1) // 2))
    first, second = int.from_bytes(left.tobytes(), sys.byteorder), int.from_bytes(right.tobytes(), sys.byteorder)
    # Every other element, so that there is room for the carry.
    even = (first & mask) + (second & mask) & mask
    odd = (first >> 32 & mask) + (second >> 32 & mask) & mask
    return array("i", (odd << 32 | even).to_bytes(4 * len(left), sys.byteorder))


@functools.lru_cache(maxsize=1024)
def _topic_prefixes(topic: str) -> tuple[int, ...]:
    """Return the share of the topic in the hash of a key, by the size of the key."""
    return tuple(_topic_hash(topic) * power & _BITS for power in _POWERS)


def _equal_size_words(keys: Sequence[bytes], topic_hash: int) -> "array[int]":
    """Return the hashes of keys of one size after a topic, in 32 bits; empty if they are too long or not ASCII.

    The common prefix is hashed once: it is most of a unique id if one client generated them.
    """
    text, first, last = b"".join(keys), min(keys), max(keys)
    size = len(first)
    shared = next((at for at in range(size) if first[at] != last[at]), size)
    lane_size = _lane_size(size - shared)
    if size - shared > lane_size or not text.isascii():
        return array("i")
    rests: bytes | bytearray = text
    if size == lane_size:
        shared = 0
    else:
        rests = bytearray(len(keys) * lane_size)
        for at in range(shared - size, 0):
            rests[lane_size + at :: lane_size] = text[size + at :: size]
    prefix = (topic_hash * _power(shared) + _hash_ascii(first[:shared])) * _POWERS[size - shared] & _BITS
    words = array("i")
    for start in range(0, len(rests), _LANES * lane_size):
        block = rests[start : start + _LANES * lane_size]
        # Adding the prefix does not overflow a lane either.
        number = _combined(block, lane_size) + prefix * (_ONES[lane_size] >> 8 * (_LANES * lane_size - len(block)))
        words += _last_words(number, len(block), lane_size)
    return words


def _lane_size(size: int) -> int:
    """Return the narrowest lane for `size` bytes, or the widest one if none is wide enough."""
    return next((lane for lane in _LANE_SIZES if size <= lane), _LANE_SIZES[-1])


def _combined(text: bytes | bytearray, lane_size: int) -> int:
    """Return a number whose lanes hold in their last 32 bits the hash of the bytes in the lane."""
    number = int.from_bytes(text)
    for shift, mask, power in _STEPS[lane_size]:
        number = (number >> shift & mask) * power + (number & mask)
    return number


def _last_words(number: int, size: int, lane_size: int) -> "array[int]":
    """Return the last 32 bits, signed, of each lane of a number of `size` bytes."""
    words = array("i", number.to_bytes(size))[lane_size // 4 - 1 :: lane_size // 4]
    if sys.byteorder == "little":
        words.byteswap()
    return words


def _mixed_hashes(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    """Return the hashes if some keys are too long for a lane or not ASCII."""
    found = key_hashes(topics, [key if len(key) <= _LANE_SIZES[-1] and key.isascii() else b"" for key in keys])
    for at, key in enumerate(keys):
        if len(key) > _LANE_SIZES[-1] or not key.isascii():
            found[at] = key_hash(topics[at], key)
    return found


def _topic_hash(topic: str) -> int:
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
