"""Sum up messages by windows of time, and send a message for each window that is over.

Bodies are JSON. A window is over once a message has come that is later than its end by the watermark; what comes for it
after that is passed over. Each result is a JSON object with windowStart, windowEnd, what was grouped by, and the sums;
its key is the begin of the window.

\b
kerolox pipeline aggregate --topic orders --value-schema 'time TIMESTAMP, customer INT, price DOUBLE' \\
    --time value.time --window '1 minute' --by 'value.customer AS customer' \\
    --sum 'count(*) AS orders' --sum 'sum(value.price) AS price' --to sums --checkpoint state
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerolox.spark.pipelines.building import explained
from kerolox.spark.pipelines.options import Connection, chosen, joined, option, pairs_of, trigger_of
from kerolox.spark.pipelines.running import Run, activate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class AggregateOptions(Connection):
    to: str = option(help="The topic that gets the results.")
    checkpoint: str = option(help="The folder, or URL, where it notes how far it is.")
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


def aggregate(spark: "SparkSession", options: AggregateOptions, run: Run | None = None) -> Aggregated:
    """Returns when all that was there is summed up, or when told to stop."""
    running = run or Run("aggregate")
    activate(spark)
    messages = explained("aggregate", lambda: results(spark, options))
    query = (
        messages.writeStream.format("rocketmq")
        .options(**options.writing({"topic": options.to}), checkpointLocation=options.checkpoint)
        .outputMode("append")
        .trigger(**trigger_of(options.trigger))
    )
    running.streams({"aggregate": explained("aggregate", query.start)})
    flow = running.progress.flows[-1]
    return Aggregated(flow.rows, flow.batch + 1)


def results(spark: "SparkSession", options: AggregateOptions) -> "DataFrame":
    """Returns the messages to be sent, as a stream."""
    from pyspark.sql.functions import col, date_format, expr, struct, to_json, window

    own = {
        **chosen(options.topic, options.pattern),
        "startingOffsets": options.starting_offsets,
        **({"valueFormat": "json", "valueSchema": options.value_schema} if options.value_schema else {}),
        **({} if options.batch_max is None else {"maxOffsetsPerTrigger": str(options.batch_max)}),
    }
    read = options.reading(spark, own, is_stream=True)
    rows = spark.readStream.format("rocketmq").options(**read).load()
    timed = rows.withColumn("eventTime", expr(options.time).cast("timestamp"))
    windows = window("eventTime", options.window, options.slide).alias("window")
    sums = [expr(text) for text in options.sum or ("count(*) AS count",)]
    table = timed.withWatermark("eventTime", options.watermark).groupBy(windows, *map(expr, options.by)).agg(*sums)
    names = [col(f"`{name}`") for name in table.columns if name != "window"]
    told = struct(col("window.start").alias("windowStart"), col("window.end").alias("windowEnd"), *names)
    key = date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss")
    return table.select(to_json(told).alias("body"), key.alias("keys"))
