"""`format("rocketmq")`: topics as tables, for batches and for streams."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kerolox.spark import streams
from kerolox.spark.cluster import Cluster
from kerolox.spark.edges import all_of, check_all_there, queues_of, resolved
from kerolox.spark.given import Given
from kerolox.spark.offsets import QueueRange, range_of
from kerolox.spark.options import ReadOptions, read_options
from kerolox.spark.planning import parallelism, partitions_of
from kerolox.spark.pushing import Narrowing, narrowing_of
from kerolox.spark.schema import columns
from kerolox.spark.sink import Writes
from kerolox.spark.tasks import Ranges, Reading, reading_of
from kerolox.spark.values import value_format_of, with_value_columns

# Spark runs this module where it asks a source which filters it takes, and only if it is allowed to ask.
_ASKING: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class RocketMQ(Writes, DataSource):
    """Made by Spark, often; nothing is connected before it is planned what to read."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        is_included = Given(self.options).flag("includeProperties", default=False)
        return with_value_columns(columns(include_properties=is_included), value_format_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        reading = reading_of(read_options(self.options, is_stream=False), schema)
        # A reader that takes filters makes every query fail for whom that is switched off.
        return FilteringReader(reading) if _ASKING in sys.modules else BatchReader(reading)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return streams.reader(reading_of(read_options(self.options, is_stream=True), schema))


class BatchReader(DataSourceReader):
    """What is there when it is planned, between the edges that the user gave."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._reading.options
        cluster = Cluster(options.connect, options.pull_group)
        ranges = cluster.patiently(lambda: planned(cluster, options, self._narrowing), "offsets")
        return partitioned(cluster, options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.batches(partition)


class FilteringReader(BatchReader):
    """The same for who lets Spark push filters: much of what they refuse is not even read.

    Spark applies all of them again, so that it does not matter what is read too much.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        options = self._reading.options
        self._narrowing = narrowing_of(filters)
        tags = self._narrowing.tags
        if tags and options.tags is None and options.sql is None:
            self._reading = replace(self._reading, options=replace(options, tags=" || ".join(sorted(tags))))
        return filters


def planned(cluster: Cluster, options: ReadOptions, narrowing: Narrowing) -> list[QueueRange]:
    """Returns what a batch reads of each queue."""
    queues = queues_of(cluster, options)
    check_all_there(options, queues)
    begins, ends = all_of(cluster.begins(queues)), all_of(cluster.ends(queues))
    starts = resolved(cluster, options.start, begins, ends)
    stops = resolved(cluster, options.end, begins, ends)
    ranges = [range_of(queue, starts[queue], stops[queue]) for queue in sorted(queues, key=lambda it: (it.topic, it))]
    return narrowing.applied(cluster, [part for part in ranges if part.length > 0], ends)


def partitioned(cluster: Cluster, options: ReadOptions, ranges: Sequence[QueueRange]) -> list[InputPartition]:
    """Returns partitions, about as many as this machine has cores unless more were asked for."""
    parts = partitions_of(
        ranges,
        parallelism=parallelism(),
        partitions_min=options.partitions_min,
        records_per_partition_max=options.records_per_partition_max,
    )
    addresses = cluster.addresses()
    return [Ranges(part, addresses) for part in parts]
