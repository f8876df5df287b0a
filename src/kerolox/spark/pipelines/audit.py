"""Audit a period: messages produced, stored, consumed, lost and duplicated, by topic and group.

A row without a group is about a topic: messages sent (by traces), stored, sent but not stored (lost), and stored more
than once. A row with a group is about a consumer group: stored messages before its offsets (consumed) and after them
(waiting), messages it passed without ever succeeding (lost), and messages it processed more than once (both by traces).
Without traces the columns that need them are empty.

\b
kerolox pipeline audit --since 2026-01-31T00:00:00 --until 2026-02-01T00:00:00
kerolox pipeline audit --since 1769817600000 --topic orders \\
    --store /data/store
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kerolox.spark.option_parser import OptionError
from kerolox.spark.pipelines.engine.build import explain_errors
from kerolox.spark.pipelines.engine.options import PipelineOptions, option, parse_timestamp
from kerolox.spark.pipelines.engine.progress import now_millis
from kerolox.spark.pipelines.engine.runner import Run
from kerolox.spark.pipelines.trace import TraceOptions, read_traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Messages are stored later than they are sent, and by another clock.
_MARGIN_MILLIS: Final = 60_000
_STORED: Final = (
    "topic STRING, brokerName STRING, queueId INT, queueOffset BIGINT, msgId STRING, storeTimestamp TIMESTAMP"
)
_OFFSETS: Final = "topic STRING, group STRING, brokerName STRING, queueId INT, consumerOffset BIGINT"


@dataclass(frozen=True, kw_only=True)
class AuditOptions(PipelineOptions):
    since: str = option(help="Start of the period: 2026-01-31T12:00:00 (UTC), or milliseconds since 1970.")
    until: str | None = option(None, help="End of the period; by default now.")
    topic: tuple[str, ...] = option((), help="A topic; may be repeated. By default all but system topics.")
    store: str | None = option(None, help="Local store directory of the only broker, to read instead of pulling.")
    trace_topic: str = option(TraceOptions.topic, help="Topic of the traces.")
    output: str | None = option(None, help="Folder or URL to which the result is also written as Parquet.")


def audit(spark: "SparkSession", options: AuditOptions, run: Run | None = None) -> "DataFrame":
    """Return topic, group, produced, stored, consumed, waiting, lost and duplicated."""
    running = run or Run("audit")
    running.add_flow("audit")
    # The end is exclusive; include messages stored in the current millisecond.
    until = now_millis() + 1 if options.until is None else parse_timestamp(options.until, "until")
    since = parse_timestamp(options.since, "since")
    state = _cluster_state(options)
    if not state.topics:
        return spark.createDataFrame([], _RESULT)
    found = explain_errors("audit", lambda: _stored(spark, options, state, since, until)).cache()
    try:
        traces = _traces(spark, options, since) if state.has_traces else None
        groups = _groups(spark, found, traces, state.offsets, since, until)
        table = _topics(found, traces, state.topics, since, until).unionByName(groups)
        rows = running.run_job(spark, table.orderBy("topic", "group").collect)
    finally:
        found.unpersist()
    result = spark.createDataFrame(rows, _RESULT)
    output = options.output
    if output is not None:
        running.run_job(spark, lambda: result.coalesce(1).write.mode("overwrite").parquet(output))
    return result


_RESULT: Final = (
    "topic STRING, group STRING, produced BIGINT, stored BIGINT, consumed BIGINT, waiting BIGINT, lost BIGINT, "
    "duplicated BIGINT"
)
_Offset = tuple[str, str, str, int, int]


class _ClusterState(NamedTuple):
    """Topics, brokers and consumer offsets of the cluster."""

    topics: list[str]
    brokers: set[str]
    # Offsets of all groups that consume the topics.
    offsets: list[_Offset]
    has_traces: bool


def _cluster_state(options: AuditOptions) -> _ClusterState:
    from kerolox.admin.sync import AdminClient
    from kerolox.client.resource_names import DLQ_PREFIX, RETRY_PREFIX

    offsets: list[_Offset] = []
    with AdminClient(options=options.client_options()) as admin:
        known = admin.topics.names()
        system = {*admin.topics.system_names(), options.trace_topic}
        all_topics = [name for name in known if name not in system and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]
        topics = list(options.topic) or all_topics
        brokers = {data.broker_name for topic in topics for data in admin.topics.route(topic).data.broker_datas}
        for topic in topics:
            for group in admin.topics.groups(topic):
                for queue, progress in admin.offsets.progress(group, topic).queues.items():
                    if queue.topic == topic:
                        offsets.append((topic, group, queue.broker_name, queue.queue_id, progress.consumer_offset))
    return _ClusterState(topics, brokers, offsets, options.trace_topic in known)


def _stored(spark: "SparkSession", options: AuditOptions, state: _ClusterState, since: int, until: int) -> "DataFrame":
    """Return the messages stored in the period, and a little before and after it."""
    first, last = since - _MARGIN_MILLIS, until + _MARGIN_MILLIS
    if options.store is not None:
        if len(state.brokers) != 1:
            raise OptionError(
                f"store has the messages of one broker, and there are {', '.join(sorted(state.brokers))}: leave it out"
            )
        topics = ",".join(state.topics)
        reader = spark.read.format("rocketmq-store").options(topics=topics, brokerName=next(iter(state.brokers)))
        # Messages that a running broker has not flushed yet count as stored.
        bounds = {"readUnflushed": "true", "startingTimestamp": str(max(0, first)), "endingTimestamp": str(last)}
        return reader.options(**bounds).schema(_STORED).load(options.store)
    own = {
        "subscribe": ",".join(state.topics),
        "startingTimestamp": str(max(0, first)),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingTimestamp": str(last),
    }
    return (
        spark.read.format("rocketmq")
        .schema(_STORED)
        .options(**options.topic_read_options(spark, own, is_stream=False))
        .load()
    )


def _traces(spark: "SparkSession", options: AuditOptions, since: int) -> "DataFrame":
    trace_options = TraceOptions(**options.connection_fields, topic=options.trace_topic, since=str(since))
    return explain_errors("audit", lambda: read_traces(spark, trace_options))


def _within(column: str, since: int, until: int) -> str:
    return f"{column} >= {since} AND {column} < {until}"


def _topics(stored: "DataFrame", traces: "DataFrame | None", topics: list[str], since: int, until: int) -> "DataFrame":
    from pyspark.sql.functions import array, col, count, countDistinct, explode, lit, when

    spark = stored.sparkSession
    names = spark.range(1).select(explode(array(*map(lit, topics))).alias("topic"))
    counted = (
        stored.where(_within("unix_millis(storeTimestamp)", since, until))
        .groupBy("topic")
        .agg(count(lit(1)).alias("stored"), (count(lit(1)) - countDistinct("msgId")).alias("duplicated"))
    )
    if traces is None:
        produced = spark.createDataFrame([], "topic STRING, produced BIGINT, lost BIGINT")
    else:
        sent = (
            traces.where("isSuccess AND kind IN ('Pub', 'EndTransaction') AND NOT (kind = 'Pub' AND messageType = 1)")
            .where(_within("timestamp", since, until))
            .groupBy("topic", "msgId")
            .agg(count(when(col("messageType").isin(1, 3), 1)).alias("later"))
        )
        ids = stored.select("topic", "msgId", lit(1).alias("found")).distinct()
        is_lost = (col("later") == 0) & col("found").isNull()
        produced = (
            sent.join(ids, ["topic", "msgId"], "left")
            .groupBy("topic")
            .agg(count(lit(1)).alias("produced"), count(when(is_lost, 1)).alias("lost"))
        )
    return (
        names.join(counted, "topic", "left")
        .join(produced, "topic", "left")
        .selectExpr(
            "topic",
            "CAST(NULL AS STRING) AS group",
            "produced",
            "coalesce(stored, 0) AS stored",
            "CAST(NULL AS BIGINT) AS consumed",
            "CAST(NULL AS BIGINT) AS waiting",
            "lost",
            "coalesce(duplicated, 0) AS duplicated",
        )
    )


def _groups(
    spark: "SparkSession",
    stored: "DataFrame",
    traces: "DataFrame | None",
    offsets: list[_Offset],
    since: int,
    until: int,
) -> "DataFrame":
    from pyspark.sql.functions import broadcast, col, count, count_distinct, lit, when
    from pyspark.sql.functions import sum as total

    reached = broadcast(spark.createDataFrame(offsets, _OFFSETS))
    own = stored.where(_within("unix_millis(storeTimestamp)", since, until))
    seen = own.join(reached, ["topic", "brokerName", "queueId"])
    is_passed = col("queueOffset") < col("consumerOffset")
    if traces is None:
        handled = spark.createDataFrame([], "group STRING, msgId STRING, times BIGINT")
    else:
        succeeded = traces.where("kind = 'SubAfter' AND isSuccess")
        handled = succeeded.groupBy("group", "msgId").agg(count(lit(1)).alias("times"))
    traced = broadcast(handled.select("group", lit(1).alias("isTraced")).distinct())
    marked = seen.join(handled, ["group", "msgId"], "left").join(traced, "group", "left")
    is_lost = is_passed & col("times").isNull()
    repeats = (
        handled.join(own.select("topic", "msgId").distinct(), "msgId")
        .groupBy("topic", "group")
        .agg(total(col("times") - 1).alias("repeats"))
    )
    return (
        marked.groupBy("topic", "group")
        .agg(
            count(lit(1)).alias("stored"),
            count(when(is_passed, 1)).alias("consumed"),
            count(when(~is_passed, 1)).alias("waiting"),
            count("isTraced").alias("tracedRows"),
            count_distinct(when(is_lost, col("msgId"))).alias("passed"),
        )
        .join(repeats, ["topic", "group"], "left")
        .selectExpr(
            "topic",
            "group",
            "CAST(NULL AS BIGINT) AS produced",
            "stored",
            "consumed",
            "waiting",
            "if(tracedRows > 0, passed, NULL) AS lost",
            "if(tracedRows > 0, coalesce(repeats, 0), NULL) AS duplicated",
        )
    )
