"""Archive topics as Parquet: a folder for each topic and day, each message once.

All columns of messages are kept, with their properties. Any reader of Parquet may read the folder. Run again it goes on
where it was; what a run that was killed has left half done is put right by the next one. Small files are put together
as it goes.

\b
kerolox pipeline archive --topic orders --output archive
kerolox pipeline archive --pattern 'shop_.*' --trigger '1 minute' \\
    --output s3a://bucket/archive
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kerolox.spark.pipelines.compacting import Compactor
from kerolox.spark.pipelines.options import Connection, chosen, option, trigger_of
from kerolox.spark.pipelines.running import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Readers pass over names that begin so.
_CHECKPOINT: Final = "_checkpoint"
_COMPACT_EVERY: Final = 20
# In UTC, wherever the session is: who reads the archive counts on it.
_DAY: Final = "date_from_unix_date(CAST(floor(unix_millis(storeTimestamp) / 86400000) AS INT))"
PARTITIONS: Final = ("topic", "day", "batch")


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions(Connection):
    output: str = option(help="The folder, or URL, that is written; how far it is, is noted in it.")
    topic: tuple[str, ...] = option((), help="A topic; may be repeated.")
    pattern: str | None = option(None, help="Or all topics whose whole names match a regular expression.")
    trigger: str = option("availableNow", help="All there is now (availableNow), or an interval such as '1 minute'.")
    starting_offsets: str = option("earliest", help="Where a new archive begins: earliest or latest.")
    batch_max: int | None = option(None, help="At most so many messages in a batch.")
    compact_count: int = option(8, help="So many small batches of a day are put together; 0: never.")
    compact_below_mb: int = option(64, help="Batches that are smaller count as small.")

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen(self.topic, self.pattern)
        trigger_of(self.trigger)


@dataclass(frozen=True)
class Archived:
    """What a run has done."""

    rows: int
    batches: int
    compacted: int


def archive(spark: "SparkSession", options: ArchiveOptions, run: Run | None = None) -> Archived:
    """Returns when all that was there is archived, or when told to stop."""
    running = run or Run("archive")
    compactor = Compactor(spark, options.output, options.compact_count, options.compact_below_mb << 20)
    compactor.recover()
    own = {
        **chosen(options.topic, options.pattern),
        "startingOffsets": options.starting_offsets,
        "includeProperties": "true",
        **({} if options.batch_max is None else {"maxOffsetsPerTrigger": str(options.batch_max)}),
    }
    stream = spark.readStream.format("rocketmq").options(**options.reading(spark, own, is_stream=True)).load()
    query = (
        stream.writeStream.foreachBatch(partial(_write, options.output, compactor))
        .option("checkpointLocation", f"{options.output}/{_CHECKPOINT}")
        .trigger(**trigger_of(options.trigger))
        .start()
    )
    running.streams({"archive": query})
    flow = running.progress.flows[-1]
    if not running.stop.is_set():
        compactor.compact()
    return Archived(flow.rows, flow.batch + 1, compactor.count)


def _write(output: str, compactor: Compactor, frame: "DataFrame", batch: int) -> None:
    """Writes a batch into folders of its own, so that one that is repeated takes its own place.

    The messages of a batch are the same when it is repeated, and so are its folders.
    """
    from pyspark.sql.functions import expr, lit

    if batch and batch % _COMPACT_EVERY == 0:
        # Those before this one are noted as done, and will not be repeated.
        compactor.compact(before=batch)
    dated = frame.withColumn("day", expr(_DAY)).withColumn("batch", lit(batch))
    writer = dated.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*PARTITIONS).parquet(output)


def read_archive(spark: "SparkSession", path: str) -> "DataFrame":
    """Returns an archive as a table; topics are texts, even if they look like numbers."""
    from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

    from kerolox.spark.schema import columns

    found = columns(include_properties=True)
    kept = [field for field in found.fields if field.name != "topic"]
    named = [StructField("topic", StringType()), StructField("day", DateType()), StructField("batch", LongType())]
    return spark.read.schema(StructType([*kept, *named])).parquet(path)
