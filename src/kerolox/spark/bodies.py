"""Bodies as their producers had them: decompressed, and batches that are stored as one record taken apart."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kerolox.message import batch, sysflag
from kerolox.message.compression import decompress
from kerolox.message.errors import CompressionError, RecordError
from kerolox.message.message import Message
from kerolox.message.record import HOSTS_AT, decode, encode
from kerolox.spark.fields import Fields, Longs

# A broker stores 4 MiB unless told otherwise, and what was compressed may have been larger.
BODY_SIZE_MAX: Final = 128 * 1024 * 1024
_INNER: Final = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP


def restored(stored: pa.BinaryArray, records: Fields) -> tuple[pa.BinaryArray, dict[int, str]]:
    """Returns the bodies, those that were compressed as they were before.

    Where one is damaged it stays as it is stored, and what is wrong with it is told by the number of its row.
    """
    sys_flags = records.heads["sys_flag"]
    is_compressed = (sys_flags & sysflag.COMPRESSED).astype(np.bool_)
    if not is_compressed.any():
        return stored, {}
    plain = []
    damages: dict[int, str] = {}
    for row in np.flatnonzero(is_compressed).tolist():
        body = stored[row].as_py()
        try:
            body = decompress(body, int(sys_flags[row]), BODY_SIZE_MAX)
        except CompressionError as error:
            damages[row] = str(error)
        plain.append(body)
    return pc.replace_with_mask(stored, pa.array(is_compressed), pa.array(plain, pa.binary())), damages


def has_inner_batches(buffer: bytes, starts: Longs) -> bool:
    if len(starts) and int(starts[-1]) + HOSTS_AT >= len(buffer):
        # Whoever looks closer says what is wrong.
        return False
    flags = np.frombuffer(buffer, np.uint8)[starts + HOSTS_AT]
    return bool((flags & _INNER == _INNER).any())


def unrolled(buffer: bytes, starts: Longs, ends: Longs) -> tuple[Longs, Longs, bytes, Longs]:
    """Returns the records with a record for each message of an inner batch: starts, ends, buffer and old numbers."""
    pieces: list[bytes | bytearray] = []
    numbers: list[int] = []
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        record = buffer[start:end]
        parts = list(_parts(decode(record))) if record[HOSTS_AT] & _INNER == _INNER else [record]
        pieces += parts
        numbers += [number] * len(parts)
    all_ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    all_starts = np.concatenate((np.zeros(1, np.int64), all_ends))[:-1]
    return all_starts, all_ends, b"".join(pieces), np.array(numbers, np.int64)


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
