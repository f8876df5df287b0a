"""Send what was archived to topics again, with keys, tags and properties, and the original times beside.

Each message gets the properties ORIGINAL_TOPIC, ORIGINAL_MSG_ID, ORIGINAL_BORN_TIMESTAMP and ORIGINAL_STORE_TIMESTAMP
(milliseconds). It goes hour by hour, as messages were stored, and notes each hour that is done: run again with the same
checkpoint, it goes on with the next one. Messages of an hour that was cut short are sent again with the same unique
keys.

\b
kerolox pipeline replay --input archive --checkpoint replay.json --to orders_again --rate 1000
kerolox pipeline replay --input archive --checkpoint r.json --topic orders --since 2026-01-31T00:00:00
"""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from kerolox.message import names
from kerolox.spark.given import OptionError
from kerolox.spark.pipelines.archive import read_archive
from kerolox.spark.pipelines.folders import Folders
from kerolox.spark.pipelines.options import Connection, moment, option
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
    hours: list[int] = []
    rows: int = 0


def replay(spark: "SparkSession", options: ReplayOptions, run: Run | None = None) -> Replayed:
    """Returns when all is sent, or when told to stop."""
    running = run or Run("replay")
    folders = Folders(spark, options.checkpoint)
    state = _state(folders, options, max(1, spark.sparkContext.defaultParallelism))
    flow = running.flow("replay")
    before = len(state.hours)
    rows = running.work(spark, lambda: _chosen(spark, options))
    left = [(hour, count) for hour, count in running.work(spark, lambda: _hours(rows)) if hour not in state.hours]
    flow.lag = sum(count for _, count in left)
    for number, (hour, count) in enumerate(left):
        running.check()
        begun = millis()
        running.work(spark, lambda hour=hour: _send(rows, hour, options, state))  # type: ignore[misc]
        state.hours.append(hour)
        state.rows += count
        folders.write(options.checkpoint, msgspec.json.encode(state).decode())
        flow.batch, flow.rows, flow.lag = number, flow.rows + count, flow.lag - count
        flow.batch_millis, flow.updated = max(1, millis() - begun), millis()
        flow.rows_per_second = count * 1000 / flow.batch_millis
        running.tell()
    return Replayed(flow.rows, len(left), before)


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


def _hours(rows: "DataFrame") -> list[tuple[int, int]]:
    """Returns the hours in which something was stored, in seconds since 1970, and how many messages that was."""
    from pyspark.sql.functions import expr

    hour = expr("CAST(floor(unix_millis(storeTimestamp) / 3600000) * 3600 AS BIGINT)").alias("hour")
    return sorted((row["hour"], row["count"]) for row in rows.groupBy(hour).count().collect())


def _send(rows: "DataFrame", hour: int, options: ReplayOptions, state: _State) -> None:
    from pyspark.sql.functions import col, lit

    begin = datetime.fromtimestamp(hour, UTC)
    end = datetime.fromtimestamp(hour + 3600, UTC)
    day = lit(begin.date())
    part = rows.where((col("storeTimestamp") >= lit(begin)) & (col("storeTimestamp") < lit(end)) & (col("day") == day))
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
    writer = messages.write.format("rocketmq").options(**options.connecting, writeId=f"{state.id}/{hour}")
    writer.mode("append").save()


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
