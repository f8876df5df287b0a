"""Summarise message traces: duration and success rate of sending and consuming, by topic and group.

Reads the traces that clients have sent (RMQ_SYS_TRACE_TOPIC). For producers the times are those of sending, for
consumers those of processing a message; delay is the time between the two. All in milliseconds.

\b
kerolox pipeline trace
kerolox pipeline trace --json \\
    --since 2026-01-31T12:00:00 --until 2026-01-31T13:00:00
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerolox.client.tracing.trace_format import TRACE_TOPIC
from kerolox.spark.pipelines.engine.build import explain_errors
from kerolox.spark.pipelines.engine.options import PipelineOptions, option, parse_timestamp
from kerolox.spark.pipelines.engine.runner import Run
from kerolox.spark.pipelines.trace_bodies import SCHEMA, records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class TraceOptions(PipelineOptions):
    topic: str = option(TRACE_TOPIC, help="Topic of the traces.")
    since: str | None = option(None, help="Only events at this time or later: 2026-01-31T12:00:00 (UTC), or millis.")
    until: str | None = option(None, help="Only events before this time.")
    output: str | None = option(None, help="Folder or URL to which the result is also written as Parquet.")


def trace(spark: "SparkSession", options: TraceOptions, run: Run | None = None) -> "DataFrame":
    """Return a row for each side (produce, consume), topic and group.

    It has messages, succeeded, successRate, p50, p90, p99, delayP50 and delayP99.
    """
    running = run or Run("trace")
    running.add_flow("trace")
    summary = explain_errors("trace", lambda: _summary(read_traces(spark, options)))
    rows = running.run_job(spark, summary.collect)
    result = spark.createDataFrame(rows, summary.schema).coalesce(1)
    output = options.output
    if output is not None:
        running.run_job(spark, lambda: result.write.mode("overwrite").parquet(output))
    return result


def read_traces(spark: "SparkSession", options: TraceOptions) -> "DataFrame":
    """Return all trace records of a period as a table."""
    from pyspark.sql.functions import col

    since = None if options.since is None else parse_timestamp(options.since, "since")
    until = None if options.until is None else parse_timestamp(options.until, "until")
    own = {"subscribe": options.topic}
    if since is not None:
        # A trace is stored after its events, so older messages cannot contain them.
        own |= {"startingTimestamp": str(since), "startingOffsetsByTimestampStrategy": "latest"}
    read = options.topic_read_options(spark, own, is_stream=False)
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
            # The clocks of producer and consumer may differ; if one time is unknown, the delay is null.
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
