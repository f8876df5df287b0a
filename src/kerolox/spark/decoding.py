"""Many records in bytes become Arrow batches, without an object for each message."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from kerolox.message.errors import RecordError
from kerolox.message.record import size_and_magic
from kerolox.spark.fields import RECORD_SIZE_MIN, Longs, walk
from kerolox.spark.rows import ANYWHERE, BYTES_MAX, EVERYTHING, Block, Only, Origin, batches_of
from kerolox.spark.schema import Wanted

__all__ = ["ANYWHERE", "BYTES_MAX", "EVERYTHING", "ROWS_MAX", "Batcher", "Only", "Origin", "batches"]

# As with BYTES_MAX, what Spark carries at the least cost.
ROWS_MAX: Final = 4096
# With so many rows a batch is worth it, and waits for no more that would have to be copied to it.
ROWS_MIN: Final = 1024


def batches(
    chunks: Iterable[bytes],
    wanted: Wanted,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    *,
    origin: Origin = ANYWHERE,
    only: Only = EVERYTHING,
) -> Iterator[pa.RecordBatch]:
    """Yields the messages of chunks of whole records, in their order, in batches as large as allowed.

    RecordError if a chunk holds anything but records.
    """
    batcher = Batcher(wanted, rows_max, bytes_max, only=only)
    for chunk in chunks:
        yield from batcher.add(chunk, origin)
    yield from batcher.rest()


class Batcher:
    """Gathers chunks, which may be small and of several queues, until they are worth a batch.

    A batch has at least one row, at most `rows_max` unless one record holds more messages, and is made of not more
    than `bytes_max` and one record, stored as well as restored.
    """

    def __init__(
        self, wanted: Wanted, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX, *, only: Only = EVERYTHING
    ) -> None:
        assert rows_max > 0
        assert 0 < bytes_max < 2**30
        self._wanted = wanted
        self._only = only
        # How many messages lay between the offsets that were wanted, by the number of their origin.
        self.counts: Counter[int] = Counter()
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._clear()

    def add(self, chunk: bytes, origin: Origin = ANYWHERE) -> Iterator[pa.RecordBatch]:
        """Takes whole records, and yields what has become a batch."""
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
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yields what was gathered and is no batch yet."""
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
        for batch in batches_of(block, self._wanted, self._only, self._bytes_max):
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
    """Returns where records begin, from `at` on, and where the last of them ends; at least one."""
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
