"""Send archived messages to topics again, with keys, tags and properties, and the original times.

Each message gets the properties ORIGINAL_TOPIC, ORIGINAL_MSG_ID, ORIGINAL_BORN_TIMESTAMP and ORIGINAL_STORE_TIMESTAMP
(milliseconds). Messages are sent hour by hour, by their store time, and each completed hour is recorded: run again with
the same checkpoint, it continues with the next hour, and with messages that were archived since for completed hours.
Messages of an interrupted hour are sent again with the same unique keys.

\b
kerolox pipeline replay --input archive --checkpoint replay.json \\
    --to orders_again --rate 1000
kerolox pipeline replay --input archive --checkpoint replay.json \\
    --topic orders --since 2026-01-31T00:00:00
"""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from kerolox.message import property_names
from kerolox.spark.option_parser import OptionError
from kerolox.spark.pipelines.archive import read_archive
from kerolox.spark.pipelines.engine.options import PipelineOptions, merged_options, option, parse_pairs, parse_timestamp
from kerolox.spark.pipelines.engine.paths import Paths
from kerolox.spark.pipelines.engine.progress import now_millis
from kerolox.spark.pipelines.engine.runner import Run
from kerolox.spark.pipelines.rate_limit import RateLimit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ORIGINALS: Final = {
    "ORIGINAL_TOPIC": "topic",
    "ORIGINAL_MSG_ID": "msgId",
    "ORIGINAL_BORN_TIMESTAMP": "bornTimestamp",
    "ORIGINAL_STORE_TIMESTAMP": "storeTimestamp",
}
_QUEUE: Final = ["topic", "brokerName", "queueId"]


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(PipelineOptions):
    input: str = option(help="Folder or URL of the archive.")
    checkpoint: str = option(help="File that keeps the progress.")
    topic: tuple[str, ...] = option((), help="Only messages of this topic; may be repeated.")
    since: str | None = option(
        None, help="Only messages stored from this time on: 2026-01-31T12:00:00 (UTC), or millis."
    )
    until: str | None = option(None, help="Only messages stored before this time.")
    where: str | None = option(None, help="Only rows that match this SQL expression, such as \"tags = 'paid'\".")
    to: str | None = option(None, help="Topic to send to; by default the original one.")
    rate: float | None = option(None, help="Limit in messages per second; by default none.")
    ordered: bool = option(False, help="Send messages of one queue to one queue, in their order.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None and self.rate <= 0:
            raise OptionError(f"rate is {self.rate:g}: give a number of messages per second above 0, or leave it out")


@dataclass(frozen=True)
class Replayed:
    """The messages and hours that a run has sent; `before` is the number of hours sent by earlier runs."""

    rows: int
    hours: int
    before: int


class _State(msgspec.Struct):
    """The content of the checkpoint. Unique keys depend on `id` and `partitions`, so a repeated run keeps both."""

    id: str
    partitions: int
    asked: dict[str, str | None]
    # Number of messages sent, by hour in seconds since 1970.
    hours: dict[int, int] = {}
    # The next offset by topic, broker and queue. An archive receives the messages of a queue in order.
    ends: list[tuple[str, str, int, int]] = []


class _Hour(NamedTuple):
    """The messages of an hour that are left to send, and the end offset in each queue."""

    # In seconds since 1970.
    begin: int
    rows: int
    ends: dict[tuple[str, str, int], int]


def replay(spark: "SparkSession", options: ReplayOptions, run: Run | None = None) -> Replayed:
    """Send all messages; Stopped if the run is stopped."""
    running = run or Run("replay")
    paths = Paths(spark, options.checkpoint)
    state = _load_state(paths, options, max(1, spark.sparkContext.defaultParallelism))
    flow = running.add_flow("replay")
    before = len(state.hours)
    rows = running.run_job(spark, lambda: _selected(spark, options))
    with_hours = _with_hours(spark, rows, state)
    left = running.run_job(spark, lambda: _left(with_hours, options, state))
    flow.lag = sum(hour.rows for hour in left)
    for number, hour in enumerate(left):
        running.raise_if_stopped()
        started = now_millis()
        running.run_job(spark, lambda hour=hour: _send(with_hours, hour.begin, options, state))  # type: ignore[misc]
        _record_hour(state, hour)
        paths.write(options.checkpoint, msgspec.json.encode(state).decode())
        flow.batch, flow.rows, flow.lag = number, flow.rows + hour.rows, flow.lag - hour.rows
        flow.batch_millis, flow.updated = max(1, now_millis() - started), now_millis()
        flow.rows_per_second = hour.rows * 1000 / flow.batch_millis
        running.report()
    return Replayed(flow.rows, len(left), before)


def _record_hour(state: _State, hour: _Hour) -> None:
    state.hours[hour.begin] = state.hours.get(hour.begin, 0) + hour.rows
    ends = {(topic, broker, queue_id): end for topic, broker, queue_id, end in state.ends}
    for queue, end in hour.ends.items():
        ends[queue] = max(end, ends.get(queue, 0))
    state.ends = [(*queue, end) for queue, end in sorted(ends.items())]


def _load_state(paths: Paths, options: ReplayOptions, partitions: int) -> _State:
    asked = {
        "input": options.input,
        "topic": ",".join(sorted(options.topic)) or None,
        "since": options.since,
        "until": options.until,
        "where": options.where,
        "to": options.to,
        # It changes sharding keys, which unique keys depend on.
        "ordered": "true" if options.ordered else None,
    }
    found = paths.read(options.checkpoint)
    if found is None:
        state = _State(uuid.uuid4().hex, partitions, asked)
        paths.write(options.checkpoint, msgspec.json.encode(state).decode())
        return state
    try:
        state = msgspec.json.decode(found, type=_State)
    except msgspec.MsgspecError as error:
        raise OptionError(f"checkpoint {options.checkpoint} is not one of a replay: give another file") from error
    changed = [name for name, value in asked.items() if state.asked.get(name) != value]
    if changed:
        raise OptionError(
            f"{changed[0]} is {asked[changed[0]]!r}, and was {state.asked.get(changed[0])!r} when checkpoint "
            f"{options.checkpoint} was created: give the same value, or another checkpoint"
        )
    return state


def _selected(spark: "SparkSession", options: ReplayOptions) -> "DataFrame":
    from pyspark.sql.functions import col, lit

    rows = read_archive(spark, options.input)
    if options.topic:
        rows = rows.where(col("topic").isin(*options.topic))
    for name, text, is_first in (("since", options.since, True), ("until", options.until, False)):
        if text is not None:
            time = datetime.fromtimestamp(parse_timestamp(text, name) / 1000, UTC)
            at = lit(time)
            # Days are paths, of which most need not be read.
            day = lit(time.date())
            stored = col("storeTimestamp")
            rows = rows.where((stored >= at) & (col("day") >= day) if is_first else (stored < at) & (col("day") <= day))
    return rows if options.where is None else rows.where(options.where)


def _with_hours(spark: "SparkSession", rows: "DataFrame", state: _State) -> "DataFrame":
    """Return rows with their hour, and whether they precede the offsets sent before this run."""
    from pyspark.sql.functions import broadcast, expr

    ends = broadcast(spark.createDataFrame(state.ends, "topic STRING, brokerName STRING, queueId INT, end BIGINT"))
    return (
        rows.withColumn("hour", expr("CAST(floor(unix_millis(storeTimestamp) / 3600000) * 3600 AS BIGINT)"))
        .join(ends, _QUEUE, "left")
        .withColumn("isBefore", expr("queueOffset < coalesce(end, 0)"))
    )


def _left(with_hours: "DataFrame", options: ReplayOptions, state: _State) -> list[_Hour]:
    """Return the hours with messages left; OptionError if older messages were archived since, so that is ambiguous."""
    from pyspark.sql.functions import count, count_if, lit
    from pyspark.sql.functions import max as largest

    counts = count(lit(1)).alias("rows"), count_if("isBefore").alias("before")
    reached = (largest("queueOffset") + 1).alias("reached")
    found = with_hours.groupBy("hour", *_QUEUE).agg(*counts, reached).collect()
    hours: list[_Hour] = []
    for hour, parts in groupby(sorted(found, key=lambda row: row["hour"]), key=lambda row: row["hour"]):
        queues = list(parts)
        number, before = sum(row["rows"] for row in queues), sum(row["before"] for row in queues)
        if hour in state.hours:
            if before > state.hours[hour]:
                at = datetime.fromtimestamp(hour, UTC).isoformat()[:19]
                raise OptionError(
                    f"{options.input} has {before} messages of the hour {at} that may have been sent, but "
                    f"{state.hours[hour]} were sent: older messages were archived since. To send all of that hour "
                    f"again, give another checkpoint, with since {at}"
                )
            number -= before
        if number:
            hours.append(_Hour(hour, number, {tuple(row[name] for name in _QUEUE): row["reached"] for row in queues}))
    return hours


def _send(with_hours: "DataFrame", hour: int, options: ReplayOptions, state: _State) -> None:
    from pyspark.sql.functions import col, lit

    begin = datetime.fromtimestamp(hour, UTC)
    end = datetime.fromtimestamp(hour + 3600, UTC)
    day = lit(begin.date())
    stored = col("storeTimestamp")
    part = with_hours.where((stored >= lit(begin)) & (stored < lit(end)) & (col("day") == day))
    sent_before = state.hours.get(hour)
    if sent_before is not None:
        part = part.where(~col("isBefore"))
    part = part.repartition(state.partitions, "topic", "brokerName", "queueId")
    part = part.sortWithinPartitions("storeTimestamp", "topic", "brokerName", "queueId", "queueOffset")
    messages = part.select(
        (col("topic") if options.to is None else lit(options.to)).alias("topic"),
        "keys",
        "tags",
        _sharding_key(is_ordered=options.ordered).alias("shardingKey"),
        properties_to_send(ORIGINALS).alias("properties"),
        "body",
    )
    if options.rate is not None:
        # The rate is that of all tasks together.
        messages = messages.mapInArrow(RateLimit(options.rate / state.partitions), messages.schema)
    write_id = f"{state.id}/{hour}" if sent_before is None else f"{state.id}/{hour}/{sent_before}"
    write_options = merged_options(
        {**options.connection_options, "writeId": write_id}, parse_pairs(options.format_options, "option")
    )
    messages.write.format("rocketmq").options(**write_options).mode("append").save()


def _sharding_key(*, is_ordered: bool) -> "Column":
    from pyspark.sql.functions import coalesce, col, concat_ws

    own = col("properties")[property_names.SHARDING_KEY]
    return coalesce(own, concat_ws("/", "brokerName", "queueId")) if is_ordered else own


def properties_to_send(originals: "dict[str, str]") -> "Column":
    """Return a message's own properties, without reserved ones, plus `originals`: new properties by column."""
    from pyspark.sql.functions import coalesce, col, create_map, lit, map_concat, map_filter, unix_millis

    excluded = [*sorted(property_names.RESERVED), property_names.SHARDING_KEY, *originals]
    empty = create_map().cast("map<string,string>")
    kept = map_filter(coalesce(col("properties"), empty), lambda name, _: ~name.isin(excluded))
    added = []
    for name, column in originals.items():
        value = unix_millis(col(column)) if column.endswith("Timestamp") else col(column)
        added += [lit(name), coalesce(value.cast("string"), lit(""))]
    return map_concat(kept, create_map(*added))
