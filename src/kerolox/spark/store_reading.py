"""Reads ranges of a commit log: blocks of records that were verified, and what is damaged between them."""

import functools
import struct
from collections.abc import Iterator
from itertools import starmap
from typing import Final

import numpy as np
import pyarrow as pa
from zlib_ng import zlib_ng

from kerolox.message.message import CRC_MASK
from kerolox.message.peek import SECTOR_SIZE, Peek, is_torn
from kerolox.spark.fields import (
    Fields,
    Longs,
    Mask,
    NoRecord,
    Records,
    even_stride,
    fields,
    host_kinds,
    low_flags,
    walk,
)
from kerolox.spark.rows import Block, Origin
from kerolox.spark.store_ranges import LogRange
from kerolox.spark.texts import cut
from kerolox.store.log.scan import Damage, Scan
from kerolox.store.log.segments import Segments

_CHUNK_SIZE: Final = 4 * 1024 * 1024
_ROWS_MAX: Final = 4096
# To copy a larger body costs more than to slice it.
_UNPACKED_SIZE_MAX: Final = 4096


def blocks(
    log: Segments, place: LogRange, origin: Origin, *, is_verified: bool = True, chunk_size: int = _CHUNK_SIZE
) -> Iterator[Block | Damage]:
    """Yields the records of a range, as many at a time as are worth a batch, and the ranges that hold none.

    A record counts if it says itself that it lies where it does, its parts are as long as it is, and, unless it is
    not to be verified, its body has its checksum. Whoever has a block must be done with it before the next one comes,
    which is read to the same memory: what is new for each would have to be cleared by the system first.
    """
    offset = base = place.start
    room = memoryview(bytearray(min(chunk_size, place.end - place.start)))
    data = room[:0]
    scan = Scan(log)
    while offset < place.end:
        good = _good(data, offset - base, base, is_verified=is_verified)
        if good is None and (offset > base or not data):
            # Nothing was read yet, or what is left of it is mostly the beginning of a record.
            base, data = offset, log.read_into(offset, room[: place.end - offset])
            good = _good(data, 0, base, is_verified=is_verified)
        if good is not None:
            yield _block(data, good.starts, good.ends, origin, good)
            offset = base + int(good.ends[-1])
            continue
        # It is longer than what was read, or unusual, or none: who trusts nothing decides.
        found = scan.record_at(offset)
        if found is None:
            return
        if isinstance(found, Peek):
            record = log.read(offset, found.size)
            yield _block(record, np.zeros(1, np.int64), np.array([found.size], np.int64), origin)
            offset += found.size
            continue
        run = next(iter(Scan(log).runs(offset)), None)
        following = place.end if run is None else min(run[0].physical_offset, place.end)
        yield Damage(offset, following, found)
        offset = following


def _block(data: Records, starts: Longs, ends: Longs, origin: Origin, known: Fields | None = None) -> Block:
    return Block(data, starts, ends, [origin], np.zeros(len(starts), np.int64), known)


def _good(data: Records, at: int, base: int, *, is_verified: bool) -> Fields | None:
    """Returns the records from `at` on, of one kind, there is nothing to say against; None if there is none.

    What is at 0 lies at `base` in the log.
    """
    starts, end = walk(data, at, len(data), _ROWS_MAX)
    if not len(starts):
        return None
    ends = np.append(starts[1:], end)
    kinds = host_kinds(low_flags(data, starts))
    count = _first(kinds != kinds[0], len(starts))
    records: Fields | None = None
    while records is None and count:
        try:
            records = fields(data, starts[:count], ends[:count], int(kinds[0]))
        except NoRecord as error:
            count = error.number
    if records is None:
        return None
    said = records.heads["physical_offset"]
    count = _first((said != starts[:count] + base) | _are_torn(data, records, base), count)
    if is_verified:
        count = _first_wrong_crc(data, records, count)
    return records.first(count) if count else None


def _first(mask: Mask, otherwise: int) -> int:
    return int(mask.argmax()) if mask.any() else otherwise


def _are_torn(data: Records, records: Fields, base: int) -> Mask:
    """Returns which records have zeros where text should be: no checksum covers what follows the body."""
    octets = np.frombuffer(data, np.uint8)
    starts, ends = records.properties_starts, records.ends
    mask: Mask = (octets[ends - 1] == 0) & (ends > starts)
    for row in np.flatnonzero(ends - starts >= SECTOR_SIZE).tolist():
        mask[row] = is_torn(bytes(data[starts[row] : ends[row]]), base + int(ends[row]))
    if records.topic is not None and b"\0" not in records.topic:
        return mask
    topics = cut(pa.py_buffer(data), records.topic_starts, records.topic_ends).dictionary_encode()
    wrong = [number for number, topic in enumerate(topics.dictionary.to_pylist()) if b"\0" in topic]
    return mask | np.isin(topics.indices.to_numpy(), wrong) if wrong else mask


def _first_wrong_crc(data: Records, records: Fields, count: int) -> int:
    found = np.fromiter(_checksums(data, records, count), np.int64, count) & CRC_MASK
    return _first(found != records.heads["crc"][:count], count)


def _checksums(data: Records, records: Fields, count: int) -> Iterator[int]:
    """Returns those of the first bodies; where all are alike without a slice for each."""
    view, crc32 = memoryview(data), zlib_ng.crc32
    starts, ends, body_starts, body_ends = (
        column[:count] for column in (records.starts, records.ends, records.body_starts, records.body_ends)
    )
    stride = even_stride(starts)
    if stride is not None and int(ends[-1] - starts[-1]) == stride:
        size, before = int(body_ends[0] - body_starts[0]), int(body_starts[0] - starts[0])
        if size <= _UNPACKED_SIZE_MAX and (body_ends - body_starts == size).all():
            bodies = _body_in(before, size, stride).iter_unpack(view[int(starts[0]) : int(ends[-1])])
            return starmap(crc32, bodies)
    bounds = zip(body_starts.tolist(), body_ends.tolist(), strict=True)
    return (crc32(view[start:end]) for start, end in bounds)


@functools.lru_cache(maxsize=16)
def _body_in(before: int, size: int, record_size: int) -> struct.Struct:
    return struct.Struct(f"{before}x{size}s{record_size - before - size}x")
