"""Aggregate messages by time windows, and send a message for each closed window.

Bodies are JSON. A window is closed when a message arrives that is later than its end by the watermark; later messages
for it are dropped. Each result is a JSON object with windowStart, windowEnd, the grouping columns and the aggregates;
its key is the start of the window. Messages that are not JSON of the schema, or have no time, are counted as bad; with
--bad-to they are sent to a topic, with the reason as property VALUE_ERROR.

\b
kerolox pipeline aggregate --topic orders \\
    --value-schema 'time TIMESTAMP, customer INT, price DOUBLE' \\
    --time value.time --window '1 minute' --by 'value.customer AS customer' \\
    --sum 'count(*) AS orders' --sum 'sum(value.price) AS price' \\
    --to sums --checkpoint state
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerolox.message import property_names
from kerolox.spark.pipelines.engine.build import explain_errors
from kerolox.spark.pipelines.engine.options import (
    PipelineOptions,
    merged_options,
    option,
    parse_pairs,
    parse_trigger,
    subscription_of,
)
from kerolox.spark.pipelines.engine.progress import BAD_ROWS_OBSERVATION
from kerolox.spark.pipelines.engine.runner import Run, activate
from kerolox.spark.pipelines.replay import ORIGINALS, properties_to_send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, kw_only=True)
class AggregateOptions(PipelineOptions):
    to: str = option(help="Topic for the results.")
    checkpoint: str = option(help="Folder or URL that keeps the progress.")
    bad_to: str | None = option(None, help="Topic for messages that cannot be aggregated.")
    topic: tuple[str, ...] = option((), help="Topic to read; may be repeated.")
    pattern: str | None = option(None, help="Or all topics whose whole name matches this regular expression.")
    value_schema: str | None = option(None, help="Schema of bodies, as column value: 'time TIMESTAMP, price DOUBLE'.")
    time: str = option("storeTimestamp", help="Event time: a column, or an SQL expression.")
    window: str = option("1 minute", help="Length of a window.")
    slide: str | None = option(None, help="Interval between window starts, if windows overlap.")
    watermark: str = option("1 minute", help="How late messages may arrive.")
    by: tuple[str, ...] = option((), help="Grouping besides the window: 'tags', 'value.id AS id'; may be repeated.")
    sum: tuple[str, ...] = option((), help="An aggregate; may be repeated. By default count(*) AS count.")
    trigger: str = option("availableNow", help="availableNow (then it ends), or an interval such as '10 seconds'.")
    starting_offsets: str = option("earliest", help="Start without a checkpoint: earliest or latest.")
    batch_max: int | None = option(None, help="Limit on messages per batch.")
    write_options: tuple[str, ...] = option(
        (), help="An option of format rocketmq for the results, such as sendTimeout=20s.", flag="--write-option"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        subscription_of(self.topic, self.pattern)
        parse_trigger(self.trigger)
        parse_pairs(self.write_options, "write-option")

    def topic_write_options(self, own: dict[str, str]) -> dict[str, str]:
        """Return all options for writing a topic, checked."""
        from kerolox.spark.sink import WriteOptions

        options = merged_options({**self.connection_options, **own}, parse_pairs(self.write_options, "write-option"))
        WriteOptions.of(options, is_stream=True)
        return options


@dataclass(frozen=True)
class Aggregated:
    """The input rows and batches of a run."""

    rows: int
    batches: int
    # Number of messages that cannot be aggregated.
    bad: int = 0


def aggregate(spark: "SparkSession", options: AggregateOptions, run: Run | None = None) -> Aggregated:
    """Run the aggregation until all available messages are processed, or the run is stopped."""
    running = run or Run("aggregate")
    activate(spark)
    flows = {"aggregate": (lambda: results(spark, options), options.to, options.checkpoint)}
    if options.bad_to is not None:
        flows["bad"] = (lambda: bad_messages(spark, options), options.bad_to, f"{options.checkpoint}/bad")
    queries: dict[str, StreamingQuery] = {}
    try:
        for name, (make, topic, checkpoint) in flows.items():
            written = (
                explain_errors(name, make)
                .writeStream.format("rocketmq")
                .options(**options.topic_write_options({"topic": topic}))
            )
            started = written.option("checkpointLocation", checkpoint).trigger(**parse_trigger(options.trigger))
            queries[name] = explain_errors(name, started.start)
    except BaseException:
        for query in queries.values():
            query.stop()
        raise
    running.follow_streams(queries)
    flow = next(flow for flow in running.progress.flows if flow.name == "aggregate")
    return Aggregated(flow.rows, flow.batch + 1, flow.bad_count)


def results(spark: "SparkSession", options: AggregateOptions) -> "DataFrame":
    """Return the stream of result messages; it observes the number of bad input messages."""
    from pyspark.sql.functions import col, count_if, date_format, expr, struct, to_json, window

    read = _read(spark, options).observe(BAD_ROWS_OBSERVATION, count_if(col("problem").isNotNull()).alias("bad"))
    timed = read.where("problem IS NULL")
    windows = window("eventTime", options.window, options.slide).alias("window")
    sums = [expr(text) for text in options.sum or ("count(*) AS count",)]
    table = timed.withWatermark("eventTime", options.watermark).groupBy(windows, *map(expr, options.by)).agg(*sums)
    others = [col(f"`{name}`") for name in table.columns if name != "window"]
    result = struct(col("window.start").alias("windowStart"), col("window.end").alias("windowEnd"), *others)
    key = date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss")
    return table.select(to_json(result).alias("body"), key.alias("keys"))


def bad_messages(spark: "SparkSession", options: AggregateOptions) -> "DataFrame":
    """Return the stream of bad messages, unchanged, with the reason and the original position as properties."""
    from pyspark.sql.functions import col

    bad = _read(spark, options, {"includeProperties": "true"}).where("problem IS NOT NULL")
    properties = properties_to_send({"VALUE_ERROR": "problem", **ORIGINALS})
    sharding_key = col("properties")[property_names.SHARDING_KEY].alias("shardingKey")
    return bad.select("keys", "tags", sharding_key, properties.alias("properties"), "body")


def _read(spark: "SparkSession", options: AggregateOptions, more: "dict[str, str] | None" = None) -> "DataFrame":
    """Return messages with eventTime, and the problem if there is no time or no value."""
    from pyspark.sql.functions import coalesce, col, expr, lit, translate, when

    own = {
        **subscription_of(options.topic, options.pattern),
        "startingOffsets": options.starting_offsets,
        **({"valueFormat": "json", "valueSchema": options.value_schema} if options.value_schema else {}),
        **({} if options.batch_max is None else {"maxOffsetsPerTrigger": str(options.batch_max)}),
    }
    read = options.topic_read_options(spark, {**own, **(more or {})}, is_stream=True)
    rows = spark.readStream.format("rocketmq").options(**read).load()
    timed = rows.withColumn("eventTime", expr(options.time).try_cast("timestamp"))
    # The text becomes a property, which must not contain its separators.
    value_error = translate("valueError", "\x01\x02", "  ") if "valueError" in rows.columns else lit(None)
    no_time = when(col("eventTime").isNull(), f"its time is missing or invalid: {options.time}")
    return timed.withColumn("problem", coalesce(value_error.cast("string"), no_time))
