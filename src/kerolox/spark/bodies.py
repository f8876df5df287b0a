"""Bodies as their producers had them: decompressed, and batches that are stored as one record taken apart."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kerolox.message import batch, sysflag
from kerolox.message.compression import decompress
from kerolox.message.errors import CompressionError, RecordError
from kerolox.message.message import Message
from kerolox.message.record import HOSTS_AT, decode, encode
from kerolox.spark.fields import Bytes, Fields, Longs, Mask, Records

# A broker stores 4 MiB unless told otherwise, and what was compressed may have been larger.
BODY_SIZE_MAX: Final = 128 * 1024 * 1024
_INNER: Final = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP


def are_compressed(records: Fields) -> Mask:
    """Returns for each record whether its body is."""
    return (records.heads["sys_flag"] & sysflag.COMPRESSED).astype(np.bool_)


class Restoring:
    """The bodies of some records, made one after the other what they were before, as far as somebody asks."""

    def __init__(self, buffer: Records, records: Fields) -> None:
        self._buffer = buffer
        self._sizes = (records.ends - records.starts).tolist()
        self._sys_flags = records.heads["sys_flag"].tolist()
        self._starts, self._ends = records.body_starts.tolist(), records.body_ends.tolist()
        self._row = self._first = 0
        self._plain: list[bytes] = []
        self._damages: dict[int, str] = {}

    def next(self) -> int:
        """Restores the body of the next record, and returns how large that record would be with it."""
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

    def taken(self) -> "Restored":
        """Returns those that were restored since the last time."""
        found = Restored(self._plain, self._damages)
        self._first, self._plain, self._damages = self._row, [], {}
        return found


class Restored(NamedTuple):
    """Bodies of those of some records that were compressed.

    Where one is damaged it is as it is stored, and what is wrong with it is told by the number of its record.
    """

    plain: list[bytes]
    damages: dict[int, str]

    def among(self, stored: pa.BinaryArray, records: Fields) -> pa.BinaryArray:
        """Returns the bodies of all the records."""
        return pc.replace_with_mask(stored, pa.array(are_compressed(records)), pa.array(self.plain, pa.binary()))


def are_inner_batches(flags: Bytes) -> Mask:
    """Returns for each record, by its low flags, whether its body is a batch that has to be taken apart."""
    mask: Mask = flags & _INNER == _INNER
    return mask


def unrolled(
    buffer: Records, starts: Longs, ends: Longs, bytes_max: int
) -> Iterator[tuple[Longs, Longs, bytes, Longs]]:
    """Yields the records with a record for each message of an inner batch: starts, ends, buffer and old numbers.

    They come in parts of not more than so many bytes and one record.
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
            yield _laid_out(pieces, numbers)
            pieces, numbers, size = [], [], 0
    if pieces:
        yield _laid_out(pieces, numbers)


def _laid_out(pieces: list[bytes | bytearray], numbers: list[int]) -> tuple[Longs, Longs, bytes, Longs]:
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
