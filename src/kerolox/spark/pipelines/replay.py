"""Send what was archived to topics again, with keys, tags and properties, and the original times beside.

Each message gets the properties ORIGINAL_TOPIC, ORIGINAL_MSG_ID, ORIGINAL_BORN_TIMESTAMP and ORIGINAL_STORE_TIMESTAMP
(milliseconds). It goes hour by hour, as messages were stored, and notes each hour that is done: run again with the same
checkpoint, it goes on with the next one, and with what the archive has got since of those that are done. Messages of an
hour that was cut short are sent again with the same unique keys.

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

from kerolox.message import names
from kerolox.spark.given import OptionError
from kerolox.spark.pipelines.archive import read_archive
from kerolox.spark.pipelines.folders import Folders
from kerolox.spark.pipelines.options import Connection, joined, moment, option, pairs_of
from kerolox.spark.pipelines.pacing import Pace
from kerolox.spark.pipelines.progress import millis
from kerolox.spark.pipelines.running import Run

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
class ReplayOptions(Connection):
    input: str = option(help="The folder, or URL, of an archive.")
    checkpoint: str = option(help="The file where it notes how far it is.")
    topic: tuple[str, ...] = option((), help="Only what was in this topic; may be repeated.")
    since: str | None = option(None, help="Only what was stored then or later: 2026-01-31T12:00:00 (UTC), or millis.")
    until: str | None = option(None, help="Only what was stored before.")
    where: str | None = option(None, help="Only rows for which this SQL expression holds, such as \"tags = 'paid'\".")
    to: str | None = option(None, help="The topic they go to; else each to the one it was in.")
    rate: float | None = option(None, help="At most so many messages a second; as many as it can without.")
    ordered: bool = option(False, help="What was in one queue goes to one queue, in its order.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None and self.rate <= 0:
            raise OptionError(f"rate is {self.rate:g}: give how many messages a second, or leave it out")


@dataclass(frozen=True)
class Replayed:
    """What a run has done; `before` was done by earlier ones."""

    rows: int
    hours: int
    before: int


class _State(msgspec.Struct):
    """What the checkpoint has. Rows have the same unique keys again if id and number of partitions are the same."""

    id: str
    partitions: int
    asked: dict[str, str | None]
    # How many messages of each hour were sent.
    hours: dict[int, int] = {}
    # Where each queue goes on, by topic, broker and number. An archive gets the messages of a queue in their order.
    ends: list[tuple[str, str, int, int]] = []


class _Hour(NamedTuple):
    """What there is of an hour to be sent, and how far that goes in each queue."""

    # In seconds since 1970.
    begin: int
    rows: int
    ends: dict[tuple[str, str, int], int]


def replay(spark: "SparkSession", options: ReplayOptions, run: Run | None = None) -> Replayed:
    """Returns when all is sent, or when told to stop."""
    running = run or Run("replay")
    folders = Folders(spark, options.checkpoint)
    state = _state(folders, options, max(1, spark.sparkContext.defaultParallelism))
    flow = running.flow("replay")
    before = len(state.hours)
    rows = running.work(spark, lambda: _chosen(spark, options))
    placed = _placed(spark, rows, state)
    left = running.work(spark, lambda: _left(placed, options, state))
    flow.lag = sum(hour.rows for hour in left)
    for number, hour in enumerate(left):
        running.check()
        begun = millis()
        running.work(spark, lambda hour=hour: _send(placed, hour.begin, options, state))  # type: ignore[misc]
        _note(state, hour)
        folders.write(options.checkpoint, msgspec.json.encode(state).decode())
        flow.batch, flow.rows, flow.lag = number, flow.rows + hour.rows, flow.lag - hour.rows
        flow.batch_millis, flow.updated = max(1, millis() - begun), millis()
        flow.rows_per_second = hour.rows * 1000 / flow.batch_millis
        running.tell()
    return Replayed(flow.rows, len(left), before)


def _note(state: _State, hour: _Hour) -> None:
    state.hours[hour.begin] = state.hours.get(hour.begin, 0) + hour.rows
    ends = {(topic, broker, queue): end for topic, broker, queue, end in state.ends}
    for place, end in hour.ends.items():
        ends[place] = max(end, ends.get(place, 0))
    state.ends = [(*place, end) for place, end in sorted(ends.items())]


def _state(folders: Folders, options: ReplayOptions, partitions: int) -> _State:
    asked = {
        "input": options.input,
        "topic": ",".join(sorted(options.topic)) or None,
        "since": options.since,
        "until": options.until,
        "where": options.where,
        "to": options.to,
        # Sharding keys are part of what unique keys are made of.
        "ordered": "true" if options.ordered else None,
    }
    found = folders.read(options.checkpoint)
    if found is None:
        state = _State(uuid.uuid4().hex, partitions, asked)
        folders.write(options.checkpoint, msgspec.json.encode(state).decode())
        return state
    try:
        state = msgspec.json.decode(found, type=_State)
    except msgspec.MsgspecError as error:
        raise OptionError(f"checkpoint {options.checkpoint} is none of a replay: give another file") from error
    changed = [name for name, value in asked.items() if state.asked.get(name) != value]
    if changed:
        raise OptionError(
            f"{changed[0]} is {asked[changed[0]]!r}, and was {state.asked.get(changed[0])!r} when checkpoint "
            f"{options.checkpoint} was begun: give that again, or another checkpoint"
        )
    return state


def _chosen(spark: "SparkSession", options: ReplayOptions) -> "DataFrame":
    from pyspark.sql.functions import col, lit

    rows = read_archive(spark, options.input)
    if options.topic:
        rows = rows.where(col("topic").isin(*options.topic))
    for name, text, is_first in (("since", options.since, True), ("until", options.until, False)):
        if text is not None:
            moment_at = datetime.fromtimestamp(moment(text, name) / 1000, UTC)
            at = lit(moment_at)
            # Days are folders, of which most need not be read.
            day = lit(moment_at.date())
            stored = col("storeTimestamp")
            rows = rows.where((stored >= at) & (col("day") >= day) if is_first else (stored < at) & (col("day") <= day))
    return rows if options.where is None else rows.where(options.where)


def _placed(spark: "SparkSession", rows: "DataFrame", state: _State) -> "DataFrame":
    """Returns rows with their hour, and whether they lie before what was sent when this run began."""
    from pyspark.sql.functions import broadcast, expr

    ends = broadcast(spark.createDataFrame(state.ends, "topic STRING, brokerName STRING, queueId INT, end BIGINT"))
    return (
        rows.withColumn("hour", expr("CAST(floor(unix_millis(storeTimestamp) / 3600000) * 3600 AS BIGINT)"))
        .join(ends, _QUEUE, "left")
        .withColumn("isBefore", expr("queueOffset < coalesce(end, 0)"))
    )


def _left(placed: "DataFrame", options: ReplayOptions, state: _State) -> list[_Hour]:
    """Returns the hours of which something is to be sent; OptionError if what that is cannot be told."""
    from pyspark.sql.functions import count, count_if, lit
    from pyspark.sql.functions import max as largest

    counts = count(lit(1)).alias("rows"), count_if("isBefore").alias("before")
    reached = (largest("queueOffset") + 1).alias("reached")
    found = placed.groupBy("hour", *_QUEUE).agg(*counts, reached).collect()
    hours: list[_Hour] = []
    for hour, parts in groupby(sorted(found, key=lambda row: row["hour"]), key=lambda row: row["hour"]):
        queues = list(parts)
        number, before = sum(row["rows"] for row in queues), sum(row["before"] for row in queues)
        if hour in state.hours:
            if before > state.hours[hour]:
                at = datetime.fromtimestamp(hour, UTC).isoformat()[:19]
                raise OptionError(
                    f"{options.input} has {before} messages of the hour {at} that may have been sent, and "
                    f"{state.hours[hour]} were: it has got some that are older than what was sent. To send all of that "
                    f"hour again, give another checkpoint, with since {at}"
                )
            number -= before
        if number:
            hours.append(_Hour(hour, number, {tuple(row[name] for name in _QUEUE): row["reached"] for row in queues}))
    return hours


def _send(placed: "DataFrame", hour: int, options: ReplayOptions, state: _State) -> None:
    from pyspark.sql.functions import col, lit

    begin = datetime.fromtimestamp(hour, UTC)
    end = datetime.fromtimestamp(hour + 3600, UTC)
    day = lit(begin.date())
    stored = col("storeTimestamp")
    part = placed.where((stored >= lit(begin)) & (stored < lit(end)) & (col("day") == day))
    noted = state.hours.get(hour)
    if noted is not None:
        part = part.where(~col("isBefore"))
    part = part.repartition(state.partitions, "topic", "brokerName", "queueId")
    part = part.sortWithinPartitions("storeTimestamp", "topic", "brokerName", "queueId", "queueOffset")
    messages = part.select(
        (col("topic") if options.to is None else lit(options.to)).alias("topic"),
        "keys",
        "tags",
        _sharding_key(is_ordered=options.ordered).alias("shardingKey"),
        kept_properties(ORIGINALS).alias("properties"),
        "body",
    )
    if options.rate is not None:
        # Tasks run side by side, and the rate is that of all.
        messages = messages.mapInArrow(Pace(options.rate / state.partitions), messages.schema)
    write_id = f"{state.id}/{hour}" if noted is None else f"{state.id}/{hour}/{noted}"
    given = joined({**options.connecting, "writeId": write_id}, pairs_of(options.format_options, "option"))
    messages.write.format("rocketmq").options(**given).mode("append").save()


def _sharding_key(*, is_ordered: bool) -> "Column":
    from pyspark.sql.functions import coalesce, col, concat_ws

    own = col("properties")[names.SHARDING_KEY]
    return coalesce(own, concat_ws("/", "brokerName", "queueId")) if is_ordered else own


def kept_properties(originals: "dict[str, str]") -> "Column":
    """Returns the properties that a message may be sent with, and what is noted of the original under these names."""
    from pyspark.sql.functions import coalesce, col, create_map, lit, map_concat, map_filter, unix_millis

    left_out = [*sorted(names.RESERVED), names.SHARDING_KEY, *originals]
    empty = create_map().cast("map<string,string>")
    kept = map_filter(coalesce(col("properties"), empty), lambda name, _: ~name.isin(left_out))
    noted = []
    for name, column in originals.items():
        value = unix_millis(col(column)) if column.endswith("Timestamp") else col(column)
        noted += [lit(name), coalesce(value.cast("string"), lit(""))]
    return map_concat(kept, create_map(*noted))
