"""Options for reading topics, all checked before the first request."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kerolox.client.resource_names import check_group, check_topic
from kerolox.errors import KeroloxError
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import compile_expression
from kerolox.spark.arrow.values import VALUE_OPTIONS
from kerolox.spark.cluster.connection import ConnectionOptions, parse_connection_options
from kerolox.spark.option_parser import OptionError, OptionParser
from kerolox.spark.read.offset_json import EARLIEST, LATEST, Offsets, check_timestamps, from_json, queues_from_json
from kerolox.wire.bodies.queues import MessageQueue

# The group of RocketMQ's tools exists on every broker; it is used if no group is given.
TOOLS_GROUP: Final = "TOOLS_CONSUMER"
MAX_TRIGGER_DELAY_MILLIS: Final = 15 * 60_000

_OFFSETS_EXAMPLE = '{"orders": {"broker-a": {"0": 23, "1": -2}}}, where -2 is earliest and -1 latest'
_TIMES_EXAMPLE = '{"orders": 1700000000000} or {"orders": {"broker-a": {"0": 1700000000000}}}'
_ASSIGN_EXAMPLE = '{"orders": {"broker-a": [0, 1]}}'
_STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay")
_BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


@dataclass(frozen=True, kw_only=True)
class OffsetSpec:
    """The requested start or end in each queue: one of `word`, `offsets`, `times` and `group` is set."""

    # The name of the option, for error messages.
    option: str
    # EARLIEST or LATEST.
    word: int | None = None
    offsets: Offsets | None = None
    # Milliseconds for all queues, or JSON by topic, broker and queue.
    times: Any = None
    group: str | None = None
    # EARLIEST or LATEST if there is no message at the time or later, or the group has no offset; None: an error.
    fallback: int | None = None
    # Whether it is an error that messages were deleted before the group consumed them; else they are skipped.
    fail_on_data_loss: bool = True


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """All options for reading; see docs/how-to/read-topics-with-spark.md."""

    connection: ConnectionOptions
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[MessageQueue, ...] | None = None
    start: OffsetSpec
    end: OffsetSpec
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    bytes_per_trigger_max: int | None = None
    trigger_delay_millis: int = MAX_TRIGGER_DELAY_MILLIS
    partitions_min: int | None = None
    records_per_partition_max: int | None = None
    fail_on_data_loss: bool = True
    group: str | None = None
    tags: str | None = None
    sql: str | None = None
    include_properties: bool = False
    # Limits of one pull request. Brokers return less; Apache RocketMQ far less.
    pull_count: int = 4096
    pull_bytes: int = 4 * 1024 * 1024
    pull_millis: int = 10_000
    # Options of the value column, as given.
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_limit(self) -> bool:
        return self.offsets_per_trigger_max is not None or self.bytes_per_trigger_max is not None

    @property
    def pull_group(self) -> str:
        return self.group or TOOLS_GROUP


def read_options(options: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Parse the options; OptionError names the invalid one and the remedy."""
    parser = OptionParser(options)
    _check_batch_or_stream(parser, is_stream=is_stream)
    topics, pattern, assigned = _subscription(parser)
    max_offsets = parser.count("maxOffsetsPerTrigger")
    min_offsets = parser.count("minOffsetsPerTrigger")
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise OptionError(
            f"option minOffsetsPerTrigger is {min_offsets}, more than maxOffsetsPerTrigger, {max_offsets}: "
            "make it smaller, or the other larger"
        )
    delay = parser.millis("maxTriggerDelay")
    if delay is not None and min_offsets is None:
        raise OptionError("option maxTriggerDelay has no meaning without minOffsetsPerTrigger: give that too")
    start = _start_offset_spec(parser, is_stream=is_stream)
    read = ReadOptions(
        connection=parse_connection_options(parser),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=start,
        end=_end_offset_spec(parser),
        offsets_per_trigger_max=max_offsets,
        offsets_per_trigger_min=min_offsets,
        bytes_per_trigger_max=parser.count("maxBytesPerTrigger"),
        trigger_delay_millis=MAX_TRIGGER_DELAY_MILLIS if delay is None else delay,
        partitions_min=parser.count("minPartitions"),
        records_per_partition_max=parser.count("maxRecordsPerPartition"),
        fail_on_data_loss=parser.flag("failOnDataLoss", default=True),
        group=_group(parser, "groupId", "rocketmq.consumerGroup"),
        tags=parser.text("tags"),
        sql=_sql(parser),
        include_properties=parser.flag("includeProperties", default=False),
        pull_count=parser.count("rocketmq.pullBatchSize") or 4096,
        pull_bytes=parser.count("rocketmq.pullBatchSizeInBytes") or 4 * 1024 * 1024,
        pull_millis=parser.millis("rocketmq.consumerPullTimeoutMillis") or 10_000,
        values={name: text for name in VALUE_OPTIONS if (text := parser.text(name)) is not None},
    )
    parser.end()
    return read


def _check_batch_or_stream(parser: OptionParser, *, is_stream: bool) -> None:
    parser.refuse({"path": "is not supported: name topics with option subscribe, and use load() without a path"})
    if is_stream:
        parser.refuse(dict.fromkeys(_BATCH_ONLY, "is for batches: leave it out, or use spark.read"))
    else:
        parser.refuse(dict.fromkeys(_STREAM_ONLY, "is for streams: leave it out, or use spark.readStream"))


def _subscription(parser: OptionParser) -> tuple[tuple[str, ...], str | None, tuple[MessageQueue, ...] | None]:
    subscribe, pattern = parser.text("subscribe"), parser.text("subscribePattern")
    assign = parser.json("assign", f"JSON such as {_ASSIGN_EXAMPLE}")
    if parser.at_most_one("subscribe", "subscribePattern", "assign") is None:
        raise OptionError("no topic is named: give exactly one of the options subscribe, subscribePattern and assign")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(
                f"option subscribePattern is not a regular expression: {error}; to name topics literally use subscribe"
            ) from None
        return (), pattern, None
    if assign is not None:
        try:
            assigned = queues_from_json(assign)
        except ValueError as error:
            raise OptionError(f"option assign: {error}; give JSON such as {_ASSIGN_EXAMPLE}") from None
        if not assigned:
            raise OptionError(f"option assign names no queue: give JSON such as {_ASSIGN_EXAMPLE}")
        return tuple(_topics(sorted({queue.topic for queue in assigned}), "assign")), None, assigned
    assert subscribe is not None
    return tuple(_topics(subscribe.split(","), "subscribe")), None, None


def _topics(names: list[str], option: str) -> list[str]:
    topics = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not topics:
        raise OptionError(f"option {option} names no topic: give names, separated by commas")
    for topic in topics:
        try:
            check_topic(topic)
        except KeroloxError as error:
            raise OptionError(f"option {option}: {error}") from None
    return topics


def _group(parser: OptionParser, name: str, *others: str) -> str | None:
    group = parser.text(name, *others)
    if group is not None:
        try:
            check_group(group)
        except KeroloxError as error:
            raise OptionError(f"option {name}: {error}") from None
    return group


def _sql(parser: OptionParser) -> str | None:
    parser.at_most_one("tags", "sql")
    sql = parser.text("sql")
    if sql is not None:
        try:
            compile_expression(sql)
        except ExpressionError as error:
            raise OptionError(
                f"option sql: {error}; give a condition such as \"colour = 'red' AND size > 3\""
            ) from None
    return sql


def _start_offset_spec(parser: OptionParser, *, is_stream: bool) -> OffsetSpec:
    strategy = parser.one_of("startingOffsetsByTimestampStrategy", "error", "latest", default="error")
    group = _group(parser, "startingGroup")
    chosen = parser.at_most_one("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
    spec = _offset_spec(parser, "starting", LATEST if is_stream else EARLIEST, LATEST if strategy == "latest" else None)
    if parser.has("startingOffsetsByTimestampStrategy") and spec.times is None:
        raise OptionError(
            "option startingOffsetsByTimestampStrategy has no meaning without startingTimestamp or "
            "startingOffsetsByTimestamp: give one of them, or leave it out"
        )
    if group is None:
        return spec
    if chosen is not None and spec.word is None:
        raise OptionError(
            f"options startingGroup and {chosen} contradict each other: beside startingGroup, startingOffsets may only "
            "be earliest or latest, for queues where the group has no offset"
        )
    return OffsetSpec(
        option="startingGroup",
        group=group,
        fallback=EARLIEST if chosen is None else spec.word,
        fail_on_data_loss=parser.flag("failOnDataLoss", default=True),
    )


def _end_offset_spec(parser: OptionParser) -> OffsetSpec:
    parser.at_most_one("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    spec = _offset_spec(parser, "ending", LATEST, LATEST)
    if spec.word == EARLIEST or (spec.offsets and EARLIEST in spec.offsets.values()):
        raise OptionError("option endingOffsets cannot be earliest: give latest or offsets")
    return spec


def _offset_spec(parser: OptionParser, which: str, default: int, fallback: int | None) -> OffsetSpec:
    time = parser.count(f"{which}Timestamp", at_least=0)
    times = parser.json(f"{which}OffsetsByTimestamp", f"JSON such as {_TIMES_EXAMPLE}")
    name = f"{which}Offsets"
    text = parser.text(name)
    if time is not None:
        return OffsetSpec(option=f"{which}Timestamp", times=time, fallback=fallback)
    if times is not None:
        try:
            check_timestamps(times)
        except ValueError as error:
            raise OptionError(f"option {name}ByTimestamp: {error}; give JSON such as {_TIMES_EXAMPLE}") from None
        return OffsetSpec(option=f"{name}ByTimestamp", times=times, fallback=fallback)
    word = {None: default, "earliest": EARLIEST, "latest": LATEST}.get(None if text is None else text.strip().lower())
    if word is not None:
        return OffsetSpec(option=name, word=word)
    try:
        offsets = from_json(parser.json(name, f"earliest, latest, or JSON such as {_OFFSETS_EXAMPLE}"))
        if any(offset < EARLIEST for offset in offsets.values()):
            raise ValueError("an offset is below -2")
    except ValueError as error:
        raise OptionError(f"option {name}: {error}; give JSON such as {_OFFSETS_EXAMPLE}") from None
    return OffsetSpec(option=name, offsets=offsets)
