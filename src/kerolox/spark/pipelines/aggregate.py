"""Sum up messages by windows of time, and send a message for each window that is over.

Bodies are JSON. A window is over once a message has come that is later than its end by the watermark; what comes for it
after that is passed over. Each result is a JSON object with windowStart, windowEnd, what was grouped by, and the sums;
its key is the begin of the window. Messages that are no JSON of the schema, or have no time, are in no window: they are
counted as bad, and go to a topic of their own with --bad-to, with the reason as property VALUE_ERROR.

\b
kerolox pipeline aggregate --topic orders \\
    --value-schema 'time TIMESTAMP, customer INT, price DOUBLE' \\
    --time value.time --window '1 minute' --by 'value.customer AS customer' \\
    --sum 'count(*) AS orders' --sum 'sum(value.price) AS price' \\
    --to sums --checkpoint state
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerolox.message import names
from kerolox.spark.pipelines.building import explained
from kerolox.spark.pipelines.options import Connection, chosen, joined, option, pairs_of, trigger_of
from kerolox.spark.pipelines.progress import OBSERVED
from kerolox.spark.pipelines.replay import ORIGINALS, kept_properties
from kerolox.spark.pipelines.running import Run, activate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, kw_only=True)
class AggregateOptions(Connection):
    to: str = option(help="The topic that gets the results.")
    checkpoint: str = option(help="The folder, or URL, where it notes how far it is.")
    bad_to: str | None = option(None, help="A topic that gets the messages that cannot be summed up.")
    topic: tuple[str, ...] = option((), help="A topic that is read; may be repeated.")
    pattern: str | None = option(None, help="Or all topics whose whole names match a regular expression.")
    value_schema: str | None = option(None, help="What bodies are: 'time TIMESTAMP, price DOUBLE'; column value.")
    time: str = option("storeTimestamp", help="When something happened: a column, or an SQL expression.")
    window: str = option("1 minute", help="How long a window is.")
    slide: str | None = option(None, help="How far apart windows begin, if they overlap.")
    watermark: str = option("1 minute", help="How late messages may be.")
    by: tuple[str, ...] = option((), help="What else is told apart: 'tags', 'value.id AS id'; may be repeated.")
    sum: tuple[str, ...] = option((), help="What is summed up; may be repeated. Without any: count(*) AS count.")
    trigger: str = option("availableNow", help="All there is now (availableNow), or an interval such as '10 seconds'.")
    starting_offsets: str = option("earliest", help="Where a new one begins: earliest or latest.")
    batch_max: int | None = option(None, help="At most so many messages in a batch.")
    write_options: tuple[str, ...] = option(
        (), help="An option of format rocketmq for the results, such as sendTimeout=20s.", flag="--write-option"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen(self.topic, self.pattern)
        trigger_of(self.trigger)
        pairs_of(self.write_options, "write-option")

    def writing(self, own: dict[str, str]) -> dict[str, str]:
        """Returns all options with which a topic is written, checked."""
        from kerolox.spark.sink import WriteOptions

        options = joined({**self.connecting, **own}, pairs_of(self.write_options, "write-option"))
        WriteOptions.of(options, is_stream=True)
        return options


@dataclass(frozen=True)
class Aggregated:
    """What a run has done."""

    rows: int
    batches: int
    # Messages that cannot be summed up.
    bad: int = 0


def aggregate(spark: "SparkSession", options: AggregateOptions, run: Run | None = None) -> Aggregated:
    """Returns when all that was there is summed up, or when told to stop."""
    running = run or Run("aggregate")
    activate(spark)
    flows = {"aggregate": (lambda: results(spark, options), options.to, options.checkpoint)}
    if options.bad_to is not None:
        flows["bad"] = (lambda: bad_messages(spark, options), options.bad_to, f"{options.checkpoint}/bad")
    queries: dict[str, StreamingQuery] = {}
    try:
        for name, (make, topic, checkpoint) in flows.items():
            written = explained(name, make).writeStream.format("rocketmq").options(**options.writing({"topic": topic}))
            started = written.option("checkpointLocation", checkpoint).trigger(**trigger_of(options.trigger))
            queries[name] = explained(name, started.start)
    except BaseException:
        for query in queries.values():
            query.stop()
        raise
    running.streams(queries)
    flow = next(flow for flow in running.progress.flows if flow.name == "aggregate")
    return Aggregated(flow.rows, flow.batch + 1, flow.bad_count)


def results(spark: "SparkSession", options: AggregateOptions) -> "DataFrame":
    """Returns the messages to be sent, as a stream; it tells how many of those it reads are bad."""
    from pyspark.sql.functions import col, count_if, date_format, expr, struct, to_json, window

    read = _read(spark, options).observe(OBSERVED, count_if(col("problem").isNotNull()).alias("bad"))
    timed = read.where("problem IS NULL")
    windows = window("eventTime", options.window, options.slide).alias("window")
    sums = [expr(text) for text in options.sum or ("count(*) AS count",)]
    table = timed.withWatermark("eventTime", options.watermark).groupBy(windows, *map(expr, options.by)).agg(*sums)
    others = [col(f"`{name}`") for name in table.columns if name != "window"]
    told = struct(col("window.start").alias("windowStart"), col("window.end").alias("windowEnd"), *others)
    key = date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss")
    return table.select(to_json(told).alias("body"), key.alias("keys"))


def bad_messages(spark: "SparkSession", options: AggregateOptions) -> "DataFrame":
    """Returns those that cannot be summed up as a stream, as they were, with the reason and where they come from."""
    from pyspark.sql.functions import col

    bad = _read(spark, options, {"includeProperties": "true"}).where("problem IS NOT NULL")
    noted = kept_properties({"VALUE_ERROR": "problem", **ORIGINALS})
    sharding_key = col("properties")[names.SHARDING_KEY].alias("shardingKey")
    return bad.select("keys", "tags", sharding_key, noted.alias("properties"), "body")


def _read(spark: "SparkSession", options: AggregateOptions, more: "dict[str, str] | None" = None) -> "DataFrame":
    """Returns messages with eventTime, and the problem of those that have none, or no value."""
    from pyspark.sql.functions import coalesce, col, expr, lit, translate, when

    own = {
        **chosen(options.topic, options.pattern),
        "startingOffsets": options.starting_offsets,
        **({"valueFormat": "json", "valueSchema": options.value_schema} if options.value_schema else {}),
        **({} if options.batch_max is None else {"maxOffsetsPerTrigger": str(options.batch_max)}),
    }
    read = options.reading(spark, {**own, **(more or {})}, is_stream=True)
    rows = spark.readStream.format("rocketmq").options(**read).load()
    timed = rows.withColumn("eventTime", expr(options.time).try_cast("timestamp"))
    # What parts properties is none of their text.
    value_error = translate("valueError", "\x01\x02", "  ") if "valueError" in rows.columns else lit(None)
    no_time = when(col("eventTime").isNull(), f"its time is missing, or none: {options.time}")
    return timed.withColumn("problem", coalesce(value_error.cast("string"), no_time))
