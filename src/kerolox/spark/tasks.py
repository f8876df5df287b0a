"""What a task does: it reads the ranges of its partition, and makes Arrow batches of them."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kerolox.spark.cluster import Cluster
from kerolox.spark.decoding import Batcher, Only, Origin
from kerolox.spark.offsets import QueueRange
from kerolox.spark.options import ReadOptions
from kerolox.spark.pulling import REMEDY, DataLost, Puller, named
from kerolox.spark.values import Values, value_format_of

log = logging.getLogger(__name__)


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
        """Yields the messages of a partition. What is left half way lets go of its connections.

        DataLost if there were fewer messages than offsets, unless failOnDataLoss is off.
        """
        if not isinstance(partition, Ranges):
            # Spark makes one of its own where nothing was planned.
            return
        options = self.options
        puller = Puller(options, Cluster(options.connect, options.pull_group).address, partition.addresses)
        batcher = Batcher(self.values.wanted, only=self.only)
        add_values = self.values.add
        try:
            for number, part in enumerate(partition.value):
                for records, start, end in puller.read(part):
                    yield from map(add_values, batcher.add(records, Origin(part.broker_name, start, end, number)))
            yield from map(add_values, batcher.rest())
            check_whole(options, partition.value, batcher.counts, puller.lost)
        finally:
            puller.close()


def check_whole(
    options: ReadOptions, parts: Sequence[QueueRange], counts: Mapping[int, int], lost: Mapping[QueueRange, int]
) -> None:
    """DataLost if some range had fewer messages than offsets, beside those that are known to be lost.

    A broker that has lost a file of its log, or a record in it, gives what comes after and does not say so.
    """
    if options.sql is not None or options.tags not in (None, "*"):
        # Then it passes over what nobody wants, too.
        return
    for number, part in enumerate(parts):
        missing = part.length - lost.get(part, 0) - counts.get(number, 0)
        if missing <= 0:
            continue
        what = (
            f"{missing} of the messages at offsets {part.start} to {part.end - 1} of {named(part)} are lost: "
            "its broker gave out none for these offsets: they were deleted or damaged, or the topic is compacted"
        )
        if options.fail_on_data_loss:
            raise DataLost(f"{what}. {REMEDY}")
        log.warning("%s", what)


def reading_of(options: ReadOptions, schema: StructType) -> Reading:
    """Returns what reads the columns of a schema; ConfigurationError if no message has them."""
    return Reading(options, Values(value_format_of(options.values), schema), only_of(options))


def only_of(options: ReadOptions) -> Only:
    """Returns what has to be looked at again here, since brokers compare tags by their hashes."""
    if options.tags is None:
        return Only()
    tags = frozenset(tag.strip() for tag in options.tags.split("||"))
    return Only() if "*" in tags else Only(tags=tags - {""})
