"""A data source that yields a prebuilt Arrow batch repeatedly: the upper limit of Spark's Python API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

NAME = "prebuilt-arrow"
PARTITIONS = 2

# Worker processes are reused, so the file is read once per process.
_batches: dict[str, pa.RecordBatch] = {}


class PrebuiltArrow(DataSource):
    """Options: `path` of the batch that `save` wrote, total number of `rows`, `rowsPerTrigger` of a stream."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchReader(dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _StreamReader(dict(self.options))


def save(batch: pa.RecordBatch, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


class _Reader:
    def __init__(self, options: dict[str, str]) -> None:
        self._path = options["path"]
        self._rows = int(options["rows"])
        self._limit = int(options.get("rowspertrigger", self._rows))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield as many rows as the partition has."""
        batch = _batches.get(self._path)
        if batch is None:
            with pa.OSFile(self._path, "rb") as file:
                batch = _batches[self._path] = pa.ipc.open_file(file).get_batch(0)
        left = partition.value
        while left:
            count = min(left, batch.num_rows)
            yield batch if count == batch.num_rows else batch.slice(0, count)
            left -= count


class _BatchReader(_Reader, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return _parts(self._rows)


class _StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._limit)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        rows = self._rows if isinstance(limit, ReadAllAvailable) else self._limit
        return {"row": min(start["row"] + rows, self._rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return _parts(end["row"] - start["row"])

    def commit(self, end: dict[str, Any]) -> None:
        pass


def _parts(rows: int) -> list[InputPartition]:
    first = rows // PARTITIONS
    return [InputPartition(count) for count in (first, rows - first) if count]
