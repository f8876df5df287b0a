"""Bloom filters as RocketMQ has them: each consumer with an expression owns some bits of a message's bit map."""

import math
from collections.abc import Iterable
from typing import Final

import msgspec

_BITS: Final = 2**64 - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


class BloomFilterData(msgspec.Struct, frozen=True, rename="camel"):
    """The bits of one consumer, and of how many."""

    bit_num: int = 0
    bit_pos: tuple[int, ...] | None = None


class BloomFilter:
    """`error_rate` is in percent, for as many owners as are expected; both decide the size, as in the original."""

    def __init__(self, error_rate: int, expected: int) -> None:
        if not 0 < error_rate < 100 or expected < 1:
            raise ValueError(f"a Bloom filter for {expected} with {error_rate} % errors cannot be")
        rate = error_rate / 100
        self.hash_count = math.ceil(math.log(rate) / math.log(0.5))
        bits = math.ceil(expected * (math.log(1 / rate) / math.log(2)) * (math.log(math.e) / math.log(2)))
        self.bit_count = 8 * math.ceil(bits / 8)

    def generate(self, text: str) -> BloomFilterData:
        """Returns the bits that a text owns."""
        hashed = murmur3(text.encode("utf-8", "replace"))
        first, second = hashed & 0xFFFFFFFF, hashed >> 32
        positions = []
        for number in range(1, self.hash_count + 1):
            combined = first + number * second & 0xFFFFFFFF
            # Java flips a negative number.
            positions.append((combined if combined < 2**31 else combined ^ 0xFFFFFFFF) % self.bit_count)
        return BloomFilterData(self.bit_count, tuple(positions))

    def is_valid(self, data: BloomFilterData | None) -> bool:
        """Whether bits were made by a filter of this size."""
        return (
            data is not None
            and data.bit_num == self.bit_count
            and data.bit_pos is not None
            and len(data.bit_pos) == self.hash_count
        )

    def bit_map(self, owners: Iterable[BloomFilterData]) -> bytes:
        """Returns a bit map with the bits of these set; bit 0 is the lowest of the first byte."""
        bits = 0
        for owner in owners:
            for position in owner.bit_pos or ():
                bits |= 1 << position
        return bits.to_bytes(self.bit_count // 8, "little")


def is_hit(data: BloomFilterData, bit_map: bytes) -> bool:
    """Whether all bits are set: those who own them may want the message, all others surely do not."""
    return all(bit_map[position >> 3] >> (position & 7) & 1 for position in data.bit_pos or ())


def murmur3(data: bytes) -> int:
    """Returns the first 64 bits of MurmurHash3 (x64, 128 bits, seed 0), which is what Guava calls `asLong`."""
    one = two = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        one ^= _mixed(int.from_bytes(data[at : at + 8], "little"), _C1, 31, _C2)
        one = (_rotated(one, 27) + two) * 5 + 0x52DCE729 & _BITS
        two ^= _mixed(int.from_bytes(data[at + 8 : at + 16], "little"), _C2, 33, _C1)
        two = (_rotated(two, 31) + one) * 5 + 0x38495AB5 & _BITS
    tail = data[whole:]
    two ^= _mixed(int.from_bytes(tail[8:], "little"), _C2, 33, _C1)
    one ^= _mixed(int.from_bytes(tail[:8], "little"), _C1, 31, _C2)
    one, two = one ^ len(data), two ^ len(data)
    one = one + two & _BITS
    two = two + one & _BITS
    return _finished(one) + _finished(two) & _BITS


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _BITS


def _mixed(number: int, before: int, bits: int, after: int) -> int:
    return _rotated(number * before & _BITS, bits) * after & _BITS


def _finished(number: int) -> int:
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCD & _BITS
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53 & _BITS
    return number ^ number >> 33
