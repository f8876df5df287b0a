"""What users may say about reading topics: every option, checked before anything is asked of a server."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kerolox.client.names import check_group, check_topic
from kerolox.errors import KeroloxError
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import compile_expression
from kerolox.spark.connecting import Connect, connect_of
from kerolox.spark.given import Given, OptionError
from kerolox.spark.offsets import EARLIEST, LATEST, Offsets, check_times, from_json, queues_from_json
from kerolox.spark.values import VALUE_OPTIONS
from kerolox.wire.bodies.queues import MessageQueue

# Whoever gives no group pulls as the tools do, which every broker knows.
TOOLS_GROUP: Final = "TOOLS_CONSUMER"
MAX_TRIGGER_DELAY_MILLIS: Final = 15 * 60_000

_OFFSETS_EXAMPLE = '{"orders": {"broker-a": {"0": 23, "1": -2}}}, where -2 is earliest and -1 latest'
_TIMES_EXAMPLE = '{"orders": 1700000000000} or {"orders": {"broker-a": {"0": 1700000000000}}}'
_ASSIGN_EXAMPLE = '{"orders": {"broker-a": [0, 1]}}'
_ONLY_STREAMS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay")
_ONLY_BATCHES = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


@dataclass(frozen=True, kw_only=True)
class Edge:
    """Where reading begins, or ends, in each queue; one of the first four says so."""

    # The option that said so, for messages.
    option: str
    word: int | None = None
    offsets: Offsets | None = None
    # One time for all queues in milliseconds, or JSON.
    times: Any = None
    group: str | None = None
    # What holds where there is nothing at the time or later, or no offset of the group: an error if None.
    otherwise: int | None = None
    # Whether it is an error that messages are gone which a group has not read; else they are passed over.
    fail_on_data_loss: bool = True


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """All of it; see docs/how-to/read-topics-with-spark.md."""

    connect: Connect
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[MessageQueue, ...] | None = None
    start: Edge
    end: Edge
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
    # How much is asked for with one pull; brokers give less, Apache's far less.
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
    """Returns what the options say; OptionError names the one that is wrong, and the remedy."""
    given = Given(options)
    _check_kind(given, is_stream=is_stream)
    topics, pattern, assigned = _selected(given)
    max_offsets = given.count("maxOffsetsPerTrigger")
    min_offsets = given.count("minOffsetsPerTrigger")
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise OptionError(
            f"option minOffsetsPerTrigger is {min_offsets}, more than maxOffsetsPerTrigger, {max_offsets}: "
            "make it smaller, or the other larger"
        )
    delay = given.millis("maxTriggerDelay")
    if delay is not None and min_offsets is None:
        raise OptionError("option maxTriggerDelay has no meaning without minOffsetsPerTrigger: give that too")
    start = _start(given, is_stream=is_stream)
    read = ReadOptions(
        connect=connect_of(given),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=start,
        end=_end(given),
        offsets_per_trigger_max=max_offsets,
        offsets_per_trigger_min=min_offsets,
        bytes_per_trigger_max=given.count("maxBytesPerTrigger"),
        trigger_delay_millis=MAX_TRIGGER_DELAY_MILLIS if delay is None else delay,
        partitions_min=given.count("minPartitions"),
        records_per_partition_max=given.count("maxRecordsPerPartition"),
        fail_on_data_loss=_fails_on_data_loss(given),
        group=_group(given, "groupId", "rocketmq.consumerGroup"),
        tags=given.text("tags"),
        sql=_sql(given),
        include_properties=given.flag("includeProperties", default=False),
        pull_count=given.count("rocketmq.pullBatchSize") or 4096,
        pull_bytes=given.count("rocketmq.pullBatchSizeInBytes") or 4 * 1024 * 1024,
        pull_millis=given.millis("rocketmq.consumerPullTimeoutMillis") or 10_000,
        values={name: text for name in VALUE_OPTIONS if (text := given.text(name)) is not None},
    )
    given.end()
    return read


def _check_kind(given: Given, *, is_stream: bool) -> None:
    given.refuse({"path": "is not known here: name topics with option subscribe, and use load() without a path"})
    if is_stream:
        given.refuse(dict.fromkeys(_ONLY_BATCHES, "is for batches: leave it out, or use spark.read"))
    else:
        given.refuse(dict.fromkeys(_ONLY_STREAMS, "is for streams: leave it out, or use spark.readStream"))


def _selected(given: Given) -> tuple[tuple[str, ...], str | None, tuple[MessageQueue, ...] | None]:
    subscribe, pattern = given.text("subscribe"), given.text("subscribePattern")
    assign = given.json("assign", f"JSON such as {_ASSIGN_EXAMPLE}")
    if given.at_most_one("subscribe", "subscribePattern", "assign") is None:
        raise OptionError("no topic is named: give exactly one of the options subscribe, subscribePattern and assign")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(
                f"option subscribePattern is no regular expression: {error}; to name topics as they are use subscribe"
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
        raise OptionError(f"option {option} names no topic: give names, several parted by commas")
    for topic in topics:
        try:
            check_topic(topic)
        except KeroloxError as error:
            raise OptionError(f"option {option}: {error}") from None
    return topics


def _group(given: Given, name: str, *others: str) -> str | None:
    group = given.text(name, *others)
    if group is not None:
        try:
            check_group(group)
        except KeroloxError as error:
            raise OptionError(f"option {name}: {error}") from None
    return group


def _sql(given: Given) -> str | None:
    given.at_most_one("tags", "sql")
    sql = given.text("sql")
    if sql is not None:
        try:
            compile_expression(sql)
        except ExpressionError as error:
            raise OptionError(
                f"option sql: {error}; give a condition such as \"colour = 'red' AND size > 3\""
            ) from None
    return sql


def _start(given: Given, *, is_stream: bool) -> Edge:
    strategy = given.one_of("startingOffsetsByTimestampStrategy", "error", "latest", default="error")
    group = _group(given, "startingGroup")
    chosen = given.at_most_one("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
    edge = _edge(given, "starting", LATEST if is_stream else EARLIEST, LATEST if strategy == "latest" else None)
    if given.has("startingOffsetsByTimestampStrategy") and edge.times is None:
        raise OptionError(
            "option startingOffsetsByTimestampStrategy has no meaning without startingTimestamp or "
            "startingOffsetsByTimestamp: give one of them, or leave it out"
        )
    if group is None:
        return edge
    if chosen is not None and edge.word is None:
        raise OptionError(
            f"options startingGroup and {chosen} contradict each other: beside startingGroup, startingOffsets may only "
            "be earliest or latest, for queues where the group has no offset"
        )
    return Edge(
        option="startingGroup",
        group=group,
        otherwise=EARLIEST if chosen is None else edge.word,
        fail_on_data_loss=_fails_on_data_loss(given),
    )


def _fails_on_data_loss(given: Given) -> bool:
    return given.flag("failOnDataLoss", default=True)


def _end(given: Given) -> Edge:
    given.at_most_one("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    edge = _edge(given, "ending", LATEST, LATEST)
    if edge.word == EARLIEST or (edge.offsets and EARLIEST in edge.offsets.values()):
        raise OptionError("option endingOffsets cannot be earliest, where nothing was read yet: give latest or offsets")
    return edge


def _edge(given: Given, which: str, default: int, otherwise: int | None) -> Edge:
    time = given.count(f"{which}Timestamp", at_least=0)
    times = given.json(f"{which}OffsetsByTimestamp", f"JSON such as {_TIMES_EXAMPLE}")
    name = f"{which}Offsets"
    text = given.text(name)
    if time is not None:
        return Edge(option=f"{which}Timestamp", times=time, otherwise=otherwise)
    if times is not None:
        try:
            check_times(times)
        except ValueError as error:
            raise OptionError(f"option {name}ByTimestamp: {error}; give JSON such as {_TIMES_EXAMPLE}") from None
        return Edge(option=f"{name}ByTimestamp", times=times, otherwise=otherwise)
    word = {None: default, "earliest": EARLIEST, "latest": LATEST}.get(None if text is None else text.strip().lower())
    if word is not None:
        return Edge(option=name, word=word)
    try:
        offsets = from_json(given.json(name, f"earliest, latest, or JSON such as {_OFFSETS_EXAMPLE}"))
        if any(offset < EARLIEST for offset in offsets.values()):
            raise ValueError("offsets below -2 mean nothing")
    except ValueError as error:
        raise OptionError(f"option {name}: {error}; give JSON such as {_OFFSETS_EXAMPLE}") from None
    return Edge(option=name, offsets=offsets)
