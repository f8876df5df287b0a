"""`format("rocketmq")`: topics as tables, for batch queries and streams."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kerolox.spark.arrow.values import parse_value_format, with_value_columns
from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.option_parser import OptionParser
from kerolox.spark.options import ReadOptions, read_options
from kerolox.spark.read import stream
from kerolox.spark.read.filter_pushdown import PushedFilters, pushed_filters
from kerolox.spark.read.offset_json import QueueRange, queue_range
from kerolox.spark.read.partitioning import parallelism, partitions_of
from kerolox.spark.read.requested_offsets import check_queues_exist, offsets_or_raise, readable_queues, resolve_offsets
from kerolox.spark.read.task import RangesPartition, ReadTask, read_task
from kerolox.spark.schema import topic_schema
from kerolox.spark.sink import WritableSource

# Spark's worker for filter pushdown; it is loaded only if spark.sql.python.filterPushdown.enabled is true.
_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class RocketMQ(WritableSource, DataSource):
    """The data source. Spark creates many instances; none connects before `partitions()` is called."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        is_included = OptionParser(self.options).flag("includeProperties", default=False)
        return with_value_columns(topic_schema(include_properties=is_included), parse_value_format(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        task = read_task(read_options(self.options, is_stream=False), schema)
        # If pushdown is disabled, every query with a reader that has pushFilters fails.
        return FilteringReader(task) if _PUSHDOWN_WORKER in sys.modules else BatchReader(task)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return stream.reader(read_task(read_options(self.options, is_stream=True), schema))


class BatchReader(DataSourceReader):
    """Reads the messages between the requested offsets that exist when the query is planned."""

    def __init__(self, task: ReadTask) -> None:
        self._task = task
        self._filters = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._task.options
        cluster = ClusterMetadata(options.connection, options.pull_group)
        ranges = cluster.retry(lambda: plan_ranges(cluster, options, self._filters), "offsets")
        return make_partitions(cluster, options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.batches(partition)


class FilteringReader(BatchReader):
    """A BatchReader with filter pushdown: messages that cannot match are mostly not even pulled.

    Spark applies all filters again, so the reader may return too much.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        options = self._task.options
        self._filters = pushed_filters(filters)
        tags = self._filters.tags
        if tags and options.tags is None and options.sql is None:
            self._task = replace(self._task, options=replace(options, tags=" || ".join(sorted(tags))))
        return filters


def plan_ranges(cluster: ClusterMetadata, options: ReadOptions, filters: PushedFilters) -> list[QueueRange]:
    """Return the range of each queue that a batch query reads."""
    queues = readable_queues(cluster, options)
    check_queues_exist(options, queues)
    begins, ends = offsets_or_raise(cluster.min_offsets(queues)), offsets_or_raise(cluster.max_offsets(queues))
    starts = resolve_offsets(cluster, options.start, begins, ends)
    stops = resolve_offsets(cluster, options.end, begins, ends)
    ranges = [
        queue_range(queue, starts[queue], stops[queue]) for queue in sorted(queues, key=lambda it: (it.topic, it))
    ]
    return filters.narrow(cluster, [part for part in ranges if part.length > 0], ends)


def make_partitions(
    cluster: ClusterMetadata, options: ReadOptions, ranges: Sequence[QueueRange]
) -> list[InputPartition]:
    """Return about as many partitions as this machine has cores, unless options ask for more."""
    parts = partitions_of(
        ranges,
        parallelism=parallelism(),
        partitions_min=options.partitions_min,
        records_per_partition_max=options.records_per_partition_max,
    )
    addresses = cluster.addresses()
    return [RangesPartition(part, addresses) for part in parts]
