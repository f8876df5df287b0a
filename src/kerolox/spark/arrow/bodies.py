"""Restores original bodies: decompresses them, and splits inner batches that are stored as one record."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kerolox.message import sysflag
from kerolox.message.compression import decompress
from kerolox.message.errors import CompressionError, RecordError
from kerolox.message.message import Message
from kerolox.message.records import batch
from kerolox.message.records.layout import HOSTS_AT
from kerolox.message.records.record import decode, encode
from kerolox.spark.arrow.record_heads import Bytes, Longs, Mask, RecordHeads, Records

# Brokers store 4 MiB by default, and the decompressed body may be larger.
BODY_SIZE_MAX: Final = 128 * 1024 * 1024
_INNER: Final = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP


def are_compressed(records: RecordHeads) -> Mask:
    """Return which records have a compressed body."""
    return (records.heads["sys_flag"] & sysflag.COMPRESSED).astype(np.bool_)


class BodyDecompressor:
    """Decompresses the bodies of records one at a time, on demand."""

    def __init__(self, buffer: Records, records: RecordHeads) -> None:
        self._buffer = buffer
        self._sizes = (records.ends - records.starts).tolist()
        self._sys_flags = records.heads["sys_flag"].tolist()
        self._starts, self._ends = records.body_starts.tolist(), records.body_ends.tolist()
        self._row = self._first = 0
        self._plain: list[bytes] = []
        self._damages: dict[int, str] = {}

    def next(self) -> int:
        """Decompress the body of the next record, and return the size of the record with it."""
        row, self._row = self._row, self._row + 1
        sys_flag = self._sys_flags[row]
        if not sys_flag & sysflag.COMPRESSED:
            return int(self._sizes[row])
        stored = body = bytes(self._buffer[self._starts[row] : self._ends[row]])
        try:
            body = decompress(stored, sys_flag, BODY_SIZE_MAX)
        except CompressionError as error:
            self._damages[row - self._first] = str(error)
        self._plain.append(body)
        return int(self._sizes[row]) + len(body) - len(stored)

    def take(self) -> "DecompressedBodies":
        """Return the bodies that were decompressed since the last call."""
        found = DecompressedBodies(self._plain, self._damages)
        self._first, self._plain, self._damages = self._row, [], {}
        return found


class DecompressedBodies(NamedTuple):
    """The decompressed bodies of those records that were compressed.

    A damaged body is kept as stored; `damages` has the reason by the index of its record.
    """

    plain: list[bytes]
    damages: dict[int, str]

    def merged_into(self, stored: pa.BinaryArray, records: RecordHeads) -> pa.BinaryArray:
        """Return the bodies of all records: `stored`, with the compressed ones replaced."""
        return pc.replace_with_mask(stored, pa.array(are_compressed(records)), pa.array(self.plain, pa.binary()))


def are_inner_batches(flags: Bytes) -> Mask:
    """Return which records, by their low flags, are inner batches."""
    mask: Mask = flags & _INNER == _INNER
    return mask


def split_inner_batches(
    buffer: Records, starts: Longs, ends: Longs, bytes_max: int
) -> Iterator[tuple[Longs, Longs, bytes, Longs]]:
    """Yield starts, end, buffer and old indexes of the records, with a record for each message of an inner batch.

    Each part has at most `bytes_max` bytes plus one record.
    """
    pieces: list[bytes | bytearray] = []
    numbers: list[int] = []
    size = 0
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        record = bytes(buffer[start:end])
        parts = list(_parts(decode(record))) if record[HOSTS_AT] & _INNER == _INNER else [record]
        pieces += parts
        numbers += [number] * len(parts)
        size += sum(map(len, parts))
        if size >= bytes_max:
            yield _concatenated(pieces, numbers)
            pieces, numbers, size = [], [], 0
    if pieces:
        yield _concatenated(pieces, numbers)


def _concatenated(pieces: list[bytes | bytearray], numbers: list[int]) -> tuple[Longs, Longs, bytes, Longs]:
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends))[:-1]
    return starts, ends, b"".join(pieces), np.array(numbers, np.int64)


def _parts(record: Message) -> Iterator[bytearray]:
    try:
        body = decompress(record.body, record.sys_flag, BODY_SIZE_MAX)
    except CompressionError as error:
        raise RecordError(f"batch at commit log offset {record.physical_offset} cannot be read: {error}") from error
    flags = sysflag.without_compression(record.sys_flag) & ~_INNER
    for index, part in enumerate(batch.decode(body)):
        yield encode(
            Message(
                record.topic,
                part.body,
                part.properties,
                record.queue_id,
                part.flag,
                flags,
                record.born_timestamp,
                record.born_host,
                record.store_timestamp,
                record.store_host,
                record.reconsume_times,
                record.prepared_transaction_offset,
                record.queue_offset + index,
                record.physical_offset,
            ),
            BODY_SIZE_MAX,
        )
