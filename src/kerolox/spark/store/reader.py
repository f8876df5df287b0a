"""Reads ranges of a commit log: blocks of verified records, and the damaged ranges between them."""

import functools
import struct
from collections.abc import Iterator
from itertools import starmap
from typing import Final

import numpy as np
import pyarrow as pa
from zlib_ng import zlib_ng

from kerolox.message.message import CRC_MASK
from kerolox.message.records.summary import SECTOR_SIZE, RecordSummary, is_torn
from kerolox.spark.arrow.columns import Block, Origin
from kerolox.spark.arrow.record_heads import (
    Longs,
    Mask,
    NotARecord,
    RecordHeads,
    Records,
    constant_stride,
    host_layouts,
    low_flags,
    read_heads,
    walk,
)
from kerolox.spark.arrow.varlen import slices
from kerolox.spark.store.ranges import LogRange
from kerolox.store.log.scan import Damage, Scan
from kerolox.store.log.segments import Segments

_CHUNK_SIZE: Final = 4 * 1024 * 1024
_ROWS_MAX: Final = 4096
# Copying a larger body costs more than slicing it.
_UNPACKED_SIZE_MAX: Final = 4096


def read_blocks(
    log: Segments, log_range: LogRange, origin: Origin, *, verify_crc: bool = True, chunk_size: int = _CHUNK_SIZE
) -> Iterator[Block | Damage]:
    """Yield the records of a range in blocks, and the damaged ranges.

    A record is valid if its physical offset is correct, its parts add up to its size and, with `verify_crc`, its body
    has the stored checksum. A block is only valid until the next one is requested: all are read into the same buffer,
    because the kernel would have to clear new memory for each.
    """
    offset = base = log_range.start
    buffer = memoryview(bytearray(min(chunk_size, log_range.end - log_range.start)))
    data = buffer[:0]
    scan = Scan(log)
    while offset < log_range.end:
        valid = _valid_records(data, offset - base, base, verify_crc=verify_crc)
        if valid is None and (offset > base or not data):
            # Nothing was read yet, or the rest of the buffer is an incomplete record.
            base, data = offset, log.read_into(offset, buffer[: log_range.end - offset])
            valid = _valid_records(data, 0, base, verify_crc=verify_crc)
        if valid is not None:
            yield _block(data, valid.starts, valid.ends, origin, valid)
            offset = base + int(valid.ends[-1])
            continue
        # A record longer than the buffer, an unusual one, or damage: let the strict scan decide.
        found = scan.record_at(offset)
        if found is None:
            return
        if isinstance(found, RecordSummary):
            record = log.read(offset, found.size)
            yield _block(record, np.zeros(1, np.int64), np.array([found.size], np.int64), origin)
            offset += found.size
            continue
        run = next(iter(Scan(log).runs(offset)), None)
        following = log_range.end if run is None else min(run[0].physical_offset, log_range.end)
        yield Damage(offset, following, found)
        offset = following


def _block(data: Records, starts: Longs, ends: Longs, origin: Origin, known: RecordHeads | None = None) -> Block:
    return Block(data, starts, ends, [origin], np.zeros(len(starts), np.int64), known)


def _valid_records(data: Records, at: int, base: int, *, verify_crc: bool) -> RecordHeads | None:
    """Return the valid records from `at` on, with the same host layout; None if there is none.

    `base` is the physical offset of the start of `data`.
    """
    starts, end = walk(data, at, len(data), _ROWS_MAX)
    if not len(starts):
        return None
    ends = np.append(starts[1:], end)
    layouts = host_layouts(low_flags(data, starts))
    count = _first(layouts != layouts[0], len(starts))
    records: RecordHeads | None = None
    while records is None and count:
        try:
            records = read_heads(data, starts[:count], ends[:count], int(layouts[0]))
        except NotARecord as error:
            count = error.number
    if records is None:
        return None
    physical_offsets = records.heads["physical_offset"]
    count = _first((physical_offsets != starts[:count] + base) | _are_torn(data, records, base), count)
    if verify_crc:
        count = _first_wrong_crc(data, records, count)
    return records.first(count) if count else None


def _first(mask: Mask, default: int) -> int:
    return int(mask.argmax()) if mask.any() else default


def _are_torn(data: Records, records: RecordHeads, base: int) -> Mask:
    """Return which records have zeros in topic or properties (torn writes): the checksum covers only the body."""
    octets = np.frombuffer(data, np.uint8)
    starts, ends = records.properties_starts, records.ends
    mask: Mask = (octets[ends - 1] == 0) & (ends > starts)
    for row in np.flatnonzero(ends - starts >= SECTOR_SIZE).tolist():
        mask[row] = is_torn(bytes(data[starts[row] : ends[row]]), base + int(ends[row]))
    if records.topic is not None and b"\0" not in records.topic:
        return mask
    topics = slices(pa.py_buffer(data), records.topic_starts, records.topic_ends).dictionary_encode()
    wrong = [number for number, topic in enumerate(topics.dictionary.to_pylist()) if b"\0" in topic]
    return mask | np.isin(topics.indices.to_numpy(), wrong) if wrong else mask


def _first_wrong_crc(data: Records, records: RecordHeads, count: int) -> int:
    found = np.fromiter(_checksums(data, records, count), np.int64, count) & CRC_MASK
    return _first(found != records.heads["crc"][:count], count)


def _checksums(data: Records, records: RecordHeads, count: int) -> Iterator[int]:
    """Return the checksums of the first bodies; if all records have equal sizes, without a slice for each."""
    view, crc32 = memoryview(data), zlib_ng.crc32
    starts, ends, body_starts, body_ends = (
        column[:count] for column in (records.starts, records.ends, records.body_starts, records.body_ends)
    )
    stride = constant_stride(starts)
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
