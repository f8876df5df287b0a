"""What a task does: it reads the ranges of its partition, and makes Arrow batches of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kerolox.spark.cluster import Cluster
from kerolox.spark.decoding import Batcher, Only, Origin
from kerolox.spark.offsets import QueueRange
from kerolox.spark.options import ReadOptions
from kerolox.spark.pulling import Puller
from kerolox.spark.values import Values, value_format_of


class Ranges(InputPartition):
    """Parts of queues, and where their brokers were when this was planned."""

    def __init__(self, ranges: Sequence[QueueRange], addresses: Mapping[str, str]) -> None:
        names = {part.broker_name for part in ranges}
        super().__init__(tuple(ranges))
        self.addresses = {name: address for name, address in addresses.items() if name in names}


@dataclass(frozen=True)
class Reading:
    """All that a task must know beside its partition; it is pickled with it."""

    options: ReadOptions
    values: Values
    only: Only = field(default_factory=Only)

    def batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the messages of a partition. What is left half way lets go of its connections."""
        if not isinstance(partition, Ranges):
            # Spark makes one of its own where nothing was planned.
            return
        options = self.options
        puller = Puller(options, Cluster(options.connect, options.pull_group).address, partition.addresses)
        batcher = Batcher(self.values.wanted, only=self.only)
        add_values = self.values.add
        try:
            for part in partition.value:
                for records, start, end in puller.read(part):
                    yield from map(add_values, batcher.add(records, Origin(part.broker_name, start, end)))
            yield from map(add_values, batcher.rest())
        finally:
            puller.close()


def reading_of(options: ReadOptions, schema: StructType) -> Reading:
    """Returns what reads the columns of a schema; ConfigurationError if no message has them."""
    return Reading(options, Values(value_format_of(options.values), schema), only_of(options))


def only_of(options: ReadOptions) -> Only:
    """Returns what has to be looked at again here, since brokers compare tags by their hashes."""
    if options.tags is None:
        return Only()
    tags = frozenset(tag.strip() for tag in options.tags.split("||"))
    return Only() if "*" in tags else Only(tags=tags - {""})
