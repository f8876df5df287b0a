"""Archive topics as Parquet: a folder for each topic and day, each message once.

All columns of messages are kept, with their properties. Any Parquet reader can read the folder. Run again, it continues
where it stopped; the next run repairs what a killed one has left incomplete. Small files are merged.

\b
kerolox pipeline archive --topic orders --output archive
kerolox pipeline archive --pattern 'shop_.*' --trigger '1 minute' \\
    --output s3a://bucket/archive
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kerolox.spark.pipelines.compact import Compactor
from kerolox.spark.pipelines.engine.options import PipelineOptions, option, parse_trigger, subscription_of
from kerolox.spark.pipelines.engine.runner import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Parquet readers ignore names that start with an underscore.
_CHECKPOINT: Final = "_checkpoint"
_COMPACT_EVERY: Final = 20
# Always in UTC, whatever the time zone of the session: readers of the archive rely on it.
_DAY: Final = "date_from_unix_date(CAST(floor(unix_millis(storeTimestamp) / 86400000) AS INT))"
PARTITIONS: Final = ("topic", "day", "batch")


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions(PipelineOptions):
    output: str = option(help="Folder or URL to write; it also keeps the progress.")
    topic: tuple[str, ...] = option((), help="A topic; may be repeated.")
    pattern: str | None = option(None, help="Or all topics whose whole name matches this regular expression.")
    trigger: str = option("availableNow", help="availableNow (then it ends), or an interval such as '1 minute'.")
    starting_offsets: str = option("earliest", help="Start of a new archive: earliest or latest.")
    batch_max: int | None = option(None, help="Limit on messages per batch.")
    compact_count: int = option(8, help="Number of small batches of a day from which they are merged; 0: never.")
    compact_below_mb: int = option(64, help="Size in MB below which a batch counts as small.")

    def __post_init__(self) -> None:
        super().__post_init__()
        subscription_of(self.topic, self.pattern)
        parse_trigger(self.trigger)


@dataclass(frozen=True)
class Archived:
    """The rows and batches of a run, and the number of merged folders."""

    rows: int
    batches: int
    compacted: int


def archive(spark: "SparkSession", options: ArchiveOptions, run: Run | None = None) -> Archived:
    """Archive until all available messages are written, or the run is stopped."""
    running = run or Run("archive")
    compactor = Compactor(spark, options.output, options.compact_count, options.compact_below_mb << 20)
    compactor.recover()
    own = {
        **subscription_of(options.topic, options.pattern),
        "startingOffsets": options.starting_offsets,
        "includeProperties": "true",
        **({} if options.batch_max is None else {"maxOffsetsPerTrigger": str(options.batch_max)}),
    }
    stream = (
        spark.readStream.format("rocketmq").options(**options.topic_read_options(spark, own, is_stream=True)).load()
    )
    query = (
        stream.writeStream.foreachBatch(partial(_write, options.output, compactor))
        .option("checkpointLocation", f"{options.output}/{_CHECKPOINT}")
        .trigger(**parse_trigger(options.trigger))
        .start()
    )
    running.follow_streams({"archive": query})
    flow = running.progress.flows[-1]
    if not running.stop.is_set():
        compactor.compact()
    return Archived(flow.rows, flow.batch + 1, compactor.count)


def _write(output: str, compactor: Compactor, frame: "DataFrame", batch: int) -> None:
    """Write a batch to its own folders, so that a repeated batch replaces itself.

    A repeated batch has the same messages, and so the same folders.
    """
    from pyspark.sql.functions import expr, lit

    if batch and batch % _COMPACT_EVERY == 0:
        # Earlier batches are committed in the checkpoint, and will not be repeated.
        compactor.compact(before=batch)
    dated = frame.withColumn("day", expr(_DAY)).withColumn("batch", lit(batch))
    writer = dated.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*PARTITIONS).parquet(output)


def read_archive(spark: "SparkSession", path: str) -> "DataFrame":
    """Return an archive as a table; the topic is always a string, even if it looks like a number."""
    from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

    from kerolox.spark.schema import topic_schema

    found = topic_schema(include_properties=True)
    columns = [field for field in found.fields if field.name != "topic"]
    partitions = [StructField("topic", StringType()), StructField("day", DateType()), StructField("batch", LongType())]
    return spark.read.schema(StructType([*columns, *partitions])).parquet(path)
