"""Java's hash of text: how tags get into consume queues, and keys into the index."""

import functools
import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Final

_BITS = 0xFFFFFFFF
_CHUNK = 64
_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(_CHUNK + 1))

# The hash is a number in base 31 whose digits may be larger than 30. Written as digits below 31 and their carries,
# both parts are numbers that int() reads at the speed of C.
_DIGITS = b"0123456789abcdefghijklmnopqrstu"
_REMAINDERS = bytes(_DIGITS[byte % 31] for byte in range(256))
_CARRIES = bytes(_DIGITS[byte // 31] for byte in range(256))

# A client's unique id has 32 characters: 20 are the same for all ids of a process, eight for those of a millisecond,
# and the last four count.
_UNIQUE_KEY_SIZE = 32
_UNIQUE_HEAD_SIZE = 20
_UNIQUE_TIME_END = 28

# Longer texts are hashed each time, so that the caches stay small whatever is sent.
SHORT_TAG_SIZE_MAX: Final = 64
_TOPIC_SIZE_MAX = 255

# Many keys are hashed at once as one large number, in which each has a lane of so many bytes: unique ids take 32, and
# 56 where a client's address is one of IPv6. Step by step neighbours become one: bytes, then pairs of them, and so on,
# each lane wide enough for what it holds.
_LANE_SIZES: Final = (8, 16, 32, 64)
_LANES: Final = 128


def _steps(lane_size: int) -> tuple[tuple[int, int, int], ...]:
    """Returns of each step by how much is shifted, what is kept, and what it counts."""
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

# A one in each lane.
_ONES = {size: int.from_bytes((bytes(size - 1) + b"\1") * _LANES) for size in _STEPS}


def java_hash(text: str) -> int:
    """Returns what Java's String.hashCode does: over UTF-16 units, wrapping in 32 bits, signed."""
    hashed = _hash_ascii(text.encode()) if text.isascii() else _hash_units(text)
    return (hashed ^ 0x80000000) - 0x80000000


def tags_code(tag: bytes) -> int:
    """Returns the number that stands for a tag in a consume queue; 0 for none."""
    return short_tags_code(tag) if len(tag) <= SHORT_TAG_SIZE_MAX else _signed_hash(tag)


def key_hash(topic: str, key: bytes) -> int:
    """Returns the hash of `topic#key` as the key index has it: never negative."""
    if len(key) == _UNIQUE_KEY_SIZE and len(topic) <= _TOPIC_SIZE_MAX and key.isascii():
        # Most keys by far; often only the last four characters differ from the one before.
        a, b, c, d = key[_UNIQUE_TIME_END:]
        hashed = _moment_hash(topic, key[:_UNIQUE_TIME_END]) + a * 29791 + b * 961 + c * 31 + d & _BITS
        return hashed if hashed < 0x80000000 else -hashed & 0x7FFFFFFF
    prefix = _topic_hash(topic)
    if key.isascii():
        hashed = prefix * _power(len(key)) + _hash_ascii(key) & _BITS
    else:
        text = key.decode("utf-8", "replace")
        hashed = prefix * _power(len(text.encode("utf-16-le")) >> 1) + _hash_units(text) & _BITS
    # Of the smallest number there is no positive form in Java, and the index takes 0 for it: so does the mask.
    return hashed if hashed < 0x80000000 else -hashed & 0x7FFFFFFF


def key_hashes(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    """Returns the `key_hash` of each key with the topic that stands in the same place; three times as fast for many."""
    count, sizes = len(keys), set(map(len, keys))
    is_one_topic = count > 1 and topics.count(topics[0]) == count
    if is_one_topic and len(sizes) == 1 and (found := _even_hashes(topics[0], keys)):
        return found
    if count > _LANES:
        parts = range(0, count, _LANES)
        return [hashed for at in parts for hashed in key_hashes(topics[at : at + _LANES], keys[at : at + _LANES])]
    lane_size = _lane_size(max(sizes, default=0))
    # A hash is that of what follows leading zeros.
    text = b"".join(keys if sizes == {lane_size} else [key.rjust(lane_size, b"\0") for key in keys])
    if len(text) > count * lane_size or not text.isascii():
        return _mixed_hashes(topics, keys)
    by_topic, powers = {topic: _topic_hash(topic) for topic in set(topics)}, _POWERS
    lanes = _last_words("I", _summed(text, lane_size), len(text), lane_size)
    # As in `key_hash`.
    return [
        hashed
        if (hashed := by_topic[topic] * powers[len(key)] + lane & 0xFFFFFFFF) < 0x80000000
        else -hashed & 0x7FFFFFFF
        for topic, key, lane in zip(topics, keys, lanes, strict=True)
    ]


def _even_hashes(topic: str, keys: Sequence[bytes]) -> list[int]:
    """Returns the same of keys of one size and one topic; nothing if they are too long, or not of ASCII.

    What all begin with is hashed once: most of an id if one client gave them one after the other.
    """
    text, first, last = b"".join(keys), min(keys), max(keys)
    size = len(first)
    shared = next((at for at in range(size) if first[at] != last[at]), size)
    lane_size = _lane_size(size - shared)
    if size - shared > lane_size or not text.isascii():
        return []
    rests: bytes | bytearray = text
    if size == lane_size:
        shared = 0
    else:
        rests = bytearray(len(keys) * lane_size)
        for at in range(shared - size, 0):
            rests[lane_size + at :: lane_size] = text[size + at :: size]
    prefix = (_topic_hash(topic) * _power(shared) + _hash_ascii(first[:shared])) * _POWERS[size - shared] & _BITS
    hashes: list[int] = []
    for start in range(0, len(rests), _LANES * lane_size):
        block = rests[start : start + _LANES * lane_size]
        # A lane has room for this too.
        number = _summed(block, lane_size) + prefix * (_ONES[lane_size] >> 8 * (_LANES * lane_size - len(block)))
        hashes += map(abs, _last_words("i", number, len(block), lane_size))
    # As in `key_hash`.
    return [hashed & 0x7FFFFFFF for hashed in hashes] if max(hashes) > 0x7FFFFFFF else hashes


def _lane_size(size: int) -> int:
    """Returns how wide a lane must be; the widest that there is if none is wide enough."""
    return next((lane for lane in _LANE_SIZES if size <= lane), _LANE_SIZES[-1])


def _summed(text: bytes | bytearray, lane_size: int) -> int:
    """Returns a number that has in the last 32 bits of each lane those of the hash of what is in the lane."""
    number = int.from_bytes(text)
    for shift, mask, power in _STEPS[lane_size]:
        number = (number >> shift & mask) * power + (number & mask)
    return number


def _last_words(kind: str, number: int, size: int, lane_size: int) -> "array[int]":
    """Returns the last 32 bits of each lane of a number of `size` bytes."""
    words = array(kind, number.to_bytes(size))[lane_size // 4 - 1 :: lane_size // 4]
    if sys.byteorder == "little":
        words.byteswap()
    return words


def _mixed_hashes(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    """Returns the same where some keys are too long for a lane, or are not of ASCII."""
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
def _moment_hash(topic: str, head: bytes) -> int:
    """Returns what all but the last four characters of a unique id add to its hash."""
    prefix = _prefix_hash(topic, head[:_UNIQUE_HEAD_SIZE])
    moment = prefix * _POWERS[_UNIQUE_TIME_END - _UNIQUE_HEAD_SIZE] + _hash_ascii(head[_UNIQUE_HEAD_SIZE:])
    return moment * _POWERS[_UNIQUE_KEY_SIZE - _UNIQUE_TIME_END] & _BITS


@functools.lru_cache(maxsize=8192)
def short_tags_code(tag: bytes) -> int:
    """Returns the same for a tag of at most SHORT_TAG_SIZE_MAX bytes, and remembers it."""
    return _signed_hash(tag)


def _signed_hash(data: bytes) -> int:
    return (_unsigned_hash(data) ^ 0x80000000) - 0x80000000


def _unsigned_hash(data: bytes) -> int:
    # What is not UTF-8 is replaced, as Java does when it reads the properties.
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
