"""The work of a Spark task: it pulls the ranges of its partition and converts them to Arrow batches."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kerolox.spark.arrow.batches import Batcher, Origin, RecordFilter
from kerolox.spark.arrow.values import ValueColumns, parse_value_format
from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.options import ReadOptions
from kerolox.spark.read.offset_json import QueueRange
from kerolox.spark.read.queue_reader import DATA_LOSS_REMEDY, DataLost, QueueReader, describe_queue

log = logging.getLogger(__name__)


class RangesPartition(InputPartition):
    """Ranges of queues, and the addresses of their brokers at planning time."""

    def __init__(self, ranges: Sequence[QueueRange], addresses: Mapping[str, str]) -> None:
        names = {part.broker_name for part in ranges}
        super().__init__(tuple(ranges))
        self.addresses = {name: address for name, address in addresses.items() if name in names}


@dataclass(frozen=True)
class ReadTask:
    """Everything a task needs besides its partition; pickled with it."""

    options: ReadOptions
    values: ValueColumns
    only: RecordFilter = field(default_factory=RecordFilter)

    def batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a partition. Closing the iterator early closes the connections.

        DataLost if there are fewer messages than offsets, unless failOnDataLoss is false.
        """
        if not isinstance(partition, RangesPartition):
            # Spark passes a partition of its own if none was planned.
            return
        options = self.options
        queue_reader = QueueReader(
            options, ClusterMetadata(options.connection, options.pull_group).address, partition.addresses
        )
        batcher = Batcher(self.values.wanted, only=self.only)
        add_values = self.values.add
        try:
            for number, part in enumerate(partition.value):
                for records, start, end in queue_reader.read(part):
                    yield from map(add_values, batcher.add(records, Origin(part.broker_name, start, end, number)))
            yield from map(add_values, batcher.flush())
            check_complete(options, partition.value, batcher.counts, queue_reader.lost)
        finally:
            queue_reader.close()


def check_complete(
    options: ReadOptions, parts: Sequence[QueueRange], counts: Mapping[int, int], lost: Mapping[QueueRange, int]
) -> None:
    """DataLost if a range had fewer messages than offsets, not counting known losses.

    A broker that lost a commit log file, or a record in it, silently returns the messages after it.
    """
    if options.sql is not None or options.tags not in (None, "*"):
        # With a filter the broker skips messages, so the number cannot be checked.
        return
    for number, part in enumerate(parts):
        missing = part.length - lost.get(part, 0) - counts.get(number, 0)
        if missing <= 0:
            continue
        what = (
            f"{missing} of the messages at offsets {part.start} to {part.end - 1} of {describe_queue(part)} are lost: "
            "its broker returned none for these offsets: they were deleted or damaged, or the topic is compacted"
        )
        if options.fail_on_data_loss:
            raise DataLost(f"{what}. {DATA_LOSS_REMEDY}")
        log.warning("%s", what)


def read_task(options: ReadOptions, schema: StructType) -> ReadTask:
    """Return the task for a schema; ConfigurationError if the schema has unknown columns."""
    return ReadTask(options, ValueColumns(parse_value_format(options.values), schema), record_filter_of(options))


def record_filter_of(options: ReadOptions) -> RecordFilter:
    """Return the filter that the task applies again, since brokers compare only the hashes of tags."""
    if options.tags is None:
        return RecordFilter()
    tags = frozenset(tag.strip() for tag in options.tags.split("||"))
    return RecordFilter() if "*" in tags else RecordFilter(tags=tags - {""})
