"""Sum up message traces: how long sending and consuming takes, and how often it works, by topic and group.

It reads what clients with tracing have written (RMQ_SYS_TRACE_TOPIC). For producers the times are those of sending, for
consumers those of handling a message; delay is the time between the two. All in milliseconds.

\b
kerolox pipeline trace
kerolox pipeline trace --json \\
    --since 2026-01-31T12:00:00 --until 2026-01-31T13:00:00
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerolox.client.trace import TRACE_TOPIC
from kerolox.spark.pipelines.building import explained
from kerolox.spark.pipelines.options import Connection, moment, option
from kerolox.spark.pipelines.running import Run
from kerolox.spark.pipelines.trace_records import SCHEMA, records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class TraceOptions(Connection):
    topic: str = option(TRACE_TOPIC, help="The topic that has the traces.")
    since: str | None = option(None, help="Only what happened then or later: 2026-01-31T12:00:00 (UTC), or millis.")
    until: str | None = option(None, help="Only what happened before.")
    output: str | None = option(None, help="A folder, or URL, where the result is also kept as Parquet.")


def trace(spark: "SparkSession", options: TraceOptions, run: Run | None = None) -> "DataFrame":
    """Returns a row for each side (produce, consume), topic and group.

    It has messages, succeeded, successRate, p50, p90, p99, delayP50 and delayP99.
    """
    running = run or Run("trace")
    running.flow("trace")
    summary = explained("trace", lambda: _summary(read_traces(spark, options)))
    rows = running.work(spark, summary.collect)
    result = spark.createDataFrame(rows, summary.schema).coalesce(1)
    output = options.output
    if output is not None:
        running.work(spark, lambda: result.write.mode("overwrite").parquet(output))
    return result


def read_traces(spark: "SparkSession", options: TraceOptions) -> "DataFrame":
    """Returns all records of traces of a period as a table."""
    from pyspark.sql.functions import col

    since = None if options.since is None else moment(options.since, "since")
    until = None if options.until is None else moment(options.until, "until")
    own = {"subscribe": options.topic}
    if since is not None:
        # What was stored before that cannot tell of what came after.
        own |= {"startingTimestamp": str(since), "startingOffsetsByTimestampStrategy": "latest"}
    read = options.reading(spark, own, is_stream=False)
    stored = spark.read.format("rocketmq").schema("body BINARY").options(**read).load()
    found = stored.mapInArrow(records, SCHEMA)
    if since is not None:
        found = found.where(col("timestamp") >= since)
    return found if until is None else found.where(col("timestamp") < until)


def _summary(traces: "DataFrame") -> "DataFrame":
    from pyspark.sql.functions import col, count, count_if, first, lit
    from pyspark.sql.functions import max as largest

    sent = traces.where("kind = 'Pub'")
    before = traces.where("kind = 'SubBefore'").select(
        "requestId", "msgId", col("group").alias("beforeGroup"), col("timestamp").alias("began")
    )
    born = sent.groupBy("msgId").agg(first("topic").alias("sentTopic"), largest("timestamp").alias("sentAt"))
    consumed = (
        traces.where("kind = 'SubAfter'")
        .join(before, ["requestId", "msgId"], "left")
        .join(born, "msgId", "left")
        .selectExpr(
            "'consume' AS side",
            "sentTopic AS topic",
            "coalesce(group, beforeGroup) AS group",
            "isSuccess",
            "costMillis",
            # The two clocks may differ; and where one of the moments is not known, neither is what lies between.
            "if(began < sentAt, 0, began - sentAt) AS delay",
        )
    )
    produced = sent.selectExpr(
        "'produce' AS side", "topic", "group", "isSuccess", "costMillis", "CAST(NULL AS BIGINT) AS delay"
    )
    grouped = produced.unionByName(consumed).groupBy("side", "topic", "group")
    return grouped.agg(
        count(lit(1)).alias("messages"),
        count_if("isSuccess").alias("succeeded"),
        (count_if("isSuccess") / count(lit(1))).alias("successRate"),
        *(_percentile("costMillis", part) for part in (50, 90, 99)),
        *(_percentile("delay", part, "delayP") for part in (50, 99)),
    ).orderBy("side", "topic", "group")


def _percentile(column: str, part: int, prefix: str = "p") -> "Column":
    from pyspark.sql.functions import percentile
    from pyspark.sql.functions import round as rounded

    return rounded(percentile(column, part / 100), 3).alias(f"{prefix}{part}")
