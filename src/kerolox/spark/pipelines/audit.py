"""Audit a period: what was produced, stored and consumed, and what was lost or doubled, by topic and group.

A row without a group is about a topic: what producers say they have sent (by traces), what is stored, what was sent and
is not stored (lost), and what is stored more than once. A row with a group is about a consumer group: how much of what
is stored lies before its offsets (consumed) or after (waiting), what it has passed without ever succeeding (lost) and
what it has handled more than once (both by traces). Where there are no traces, what they would say is empty.

\b
kerolox pipeline audit --since 2026-01-31T00:00:00 --until 2026-02-01T00:00:00
kerolox pipeline audit --since 1769817600000 --topic orders \\
    --store /data/store
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kerolox.spark.given import OptionError
from kerolox.spark.pipelines.building import explained
from kerolox.spark.pipelines.options import Connection, moment, option
from kerolox.spark.pipelines.progress import millis
from kerolox.spark.pipelines.running import Run
from kerolox.spark.pipelines.trace import TraceOptions, read_traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A message is stored a little later than it was sent, by another clock.
_MARGIN_MILLIS: Final = 60_000
_STORED: Final = (
    "topic STRING, brokerName STRING, queueId INT, queueOffset BIGINT, msgId STRING, storeTimestamp TIMESTAMP"
)
_OFFSETS: Final = "topic STRING, group STRING, brokerName STRING, queueId INT, consumerOffset BIGINT"


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Connection):
    since: str = option(help="Where the period begins: 2026-01-31T12:00:00 (UTC), or milliseconds since 1970.")
    until: str | None = option(None, help="Where it ends; now, if not given.")
    topic: tuple[str, ...] = option((), help="A topic; may be repeated. Without any: all but the system's.")
    store: str | None = option(None, help="A store on this machine, of the only broker: read instead of asking it.")
    trace_topic: str = option(TraceOptions.topic, help="The topic that has the traces.")
    output: str | None = option(None, help="A folder, or URL, where the result is also kept as Parquet.")


def audit(spark: "SparkSession", options: AuditOptions, run: Run | None = None) -> "DataFrame":
    """Returns topic, group, produced, stored, consumed, waiting, lost and duplicated."""
    running = run or Run("audit")
    running.flow("audit")
    # What was stored in this very millisecond counts, too, if the end is now.
    until = millis() + 1 if options.until is None else moment(options.until, "until")
    since = moment(options.since, "since")
    asked = _asked(options)
    if not asked.topics:
        return spark.createDataFrame([], _RESULT)
    found = explained("audit", lambda: _stored(spark, options, asked, since, until)).cache()
    try:
        traces = _traces(spark, options, since) if asked.has_traces else None
        groups = _groups(spark, found, traces, asked.offsets, since, until)
        table = _topics(found, traces, asked.topics, since, until).unionByName(groups)
        rows = running.work(spark, table.orderBy("topic", "group").collect)
    finally:
        found.unpersist()
    result = spark.createDataFrame(rows, _RESULT)
    output = options.output
    if output is not None:
        running.work(spark, lambda: result.coalesce(1).write.mode("overwrite").parquet(output))
    return result


_RESULT: Final = (
    "topic STRING, group STRING, produced BIGINT, stored BIGINT, consumed BIGINT, waiting BIGINT, lost BIGINT, "
    "duplicated BIGINT"
)
_Offset = tuple[str, str, str, int, int]


class _Asked(NamedTuple):
    """What a cluster says of itself."""

    topics: list[str]
    brokers: set[str]
    # Of the groups that consume the topics.
    offsets: list[_Offset]
    has_traces: bool


def _asked(options: AuditOptions) -> _Asked:
    from kerolox.admin.sync import AdminClient
    from kerolox.client.names import DLQ_PREFIX, RETRY_PREFIX

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
    return _Asked(topics, brokers, offsets, options.trace_topic in known)


def _stored(spark: "SparkSession", options: AuditOptions, asked: _Asked, since: int, until: int) -> "DataFrame":
    """Returns what was stored in the period, and a little before and after."""
    first, last = since - _MARGIN_MILLIS, until + _MARGIN_MILLIS
    if options.store is not None:
        if len(asked.brokers) != 1:
            raise OptionError(
                f"store is that of one broker, and there are {', '.join(sorted(asked.brokers))}: leave it out"
            )
        topics = ",".join(asked.topics)
        reader = spark.read.format("rocketmq-store").options(topics=topics, brokerName=next(iter(asked.brokers)))
        # What a broker at work has yet to make durable is stored all the same.
        edges = {"readUnflushed": "true", "startingTimestamp": str(max(0, first)), "endingTimestamp": str(last)}
        return reader.options(**edges).schema(_STORED).load(options.store)
    own = {
        "subscribe": ",".join(asked.topics),
        "startingTimestamp": str(max(0, first)),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingTimestamp": str(last),
    }
    return spark.read.format("rocketmq").schema(_STORED).options(**options.reading(spark, own, is_stream=False)).load()


def _traces(spark: "SparkSession", options: AuditOptions, since: int) -> "DataFrame":
    given = TraceOptions(**options.connection, topic=options.trace_topic, since=str(since))
    return explained("audit", lambda: read_traces(spark, given))


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
