"""Converts encoded records to Arrow batches, without an object per message."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from kerolox.message.errors import RecordError
from kerolox.message.records.layout import RECORD_SIZE_MIN
from kerolox.message.records.record import size_and_magic
from kerolox.spark.arrow.columns import ANY_ORIGIN, BYTES_MAX, NO_FILTER, Block, Origin, RecordFilter, to_batches
from kerolox.spark.arrow.record_heads import Longs, walk
from kerolox.spark.schema import WantedColumns

__all__ = ["ANY_ORIGIN", "BYTES_MAX", "NO_FILTER", "ROWS_MAX", "Batcher", "Origin", "RecordFilter", "batches"]

# Like BYTES_MAX, the batch size that costs Spark the least per row.
ROWS_MAX: Final = 4096
# A batch with this many rows is large enough; waiting for more chunks would mean copying them together.
ROWS_MIN: Final = 1024


def batches(
    chunks: Iterable[bytes],
    wanted: WantedColumns,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    *,
    origin: Origin = ANY_ORIGIN,
    only: RecordFilter = NO_FILTER,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of chunks of whole records, in order, in batches as large as allowed.

    RecordError if a chunk contains anything but whole records.
    """
    batcher = Batcher(wanted, rows_max, bytes_max, only=only)
    for chunk in chunks:
        yield from batcher.add(chunk, origin)
    yield from batcher.flush()


class Batcher:
    """Collects chunks, which may be small and of several queues, until they are large enough for a batch.

    A batch has at least one row, and at most `rows_max` unless an inner batch holds more messages. Its records have
    at most `bytes_max` bytes plus one record, both as stored and after decompression.
    """

    def __init__(
        self,
        wanted: WantedColumns,
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        *,
        only: RecordFilter = NO_FILTER,
    ) -> None:
        assert rows_max > 0
        assert 0 < bytes_max < 2**30
        self._wanted = wanted
        self._only = only
        # Number of messages within the wanted offsets, by the number of their origin.
        self.counts: Counter[int] = Counter()
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._clear()

    def add(self, chunk: bytes, origin: Origin = ANY_ORIGIN) -> Iterator[pa.RecordBatch]:
        """Add whole records, and yield the batches that are complete."""
        at, end = 0, len(chunk)
        while at < end:
            first = at
            found, at = _walk(chunk, at, self._rows_max - self._rows, self._bytes_max - self._size)
            self._pieces.append(chunk if at - first == end else memoryview(chunk)[first:at])
            self._starts.append(found + (self._size - first))
            self._origins.append(origin)
            self._counts.append(len(found))
            self._rows += len(found)
            self._size += at - first
            if self._rows >= min(ROWS_MIN, self._rows_max) or self._size >= self._bytes_max:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the collected records, as batches."""
        if not self._rows:
            return
        buffer = b"".join(self._pieces)
        starts = np.concatenate(self._starts)
        ends = np.concatenate((starts[1:], [len(buffer)]))
        origins = list(dict.fromkeys(self._origins))
        numbers = {origin: number for number, origin in enumerate(origins)}
        origin_numbers = np.repeat([numbers[origin] for origin in self._origins], self._counts)
        self._clear()
        block = Block(buffer, starts, ends, origins, origin_numbers, counts=self.counts)
        for batch in to_batches(block, self._wanted, self._only, self._bytes_max):
            if batch.num_rows:
                yield batch

    def _clear(self) -> None:
        self._pieces: list[bytes | memoryview] = []
        self._starts: list[Longs] = []
        self._origins: list[Origin] = []
        self._counts: list[int] = []
        self._rows = 0
        self._size = 0


def _walk(chunk: bytes, at: int, rows_max: int, bytes_max: int) -> tuple[Longs, int]:
    """Return the starts of at least one record from `at` on, and the end of the last; RecordError if cut off."""
    stop = min(len(chunk), at + bytes_max)
    found, end = walk(chunk, at, stop, rows_max)
    if end >= stop or len(found) == rows_max:
        return found, end
    left = len(chunk) - end
    if left < RECORD_SIZE_MIN:
        raise RecordError(f"record at {end} is cut off: {left} bytes, at least {RECORD_SIZE_MIN} needed")
    size, _ = size_and_magic(chunk, end)
    if size < RECORD_SIZE_MIN:
        raise RecordError(f"record at {end} has a size of {size}, at least {RECORD_SIZE_MIN} needed")
    raise RecordError(f"record at {end} is cut off: {left} of {size} bytes")
