"""Pushed filters narrow the ranges to read."""

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from kerolox.spark.cluster.connection import ConnectionOptions
from kerolox.spark.cluster.metadata import ClusterMetadata, QueueOffsets
from kerolox.spark.read.filter_pushdown import pushed_filters
from kerolox.spark.read.offset_json import Offsets, QueueRange
from kerolox.wire.bodies.queues import MessageQueue

RANGES = [QueueRange(topic, broker, 0, 0, 100) for topic in ("a", "b") for broker in ("x", "y")]


class Timed(ClusterMetadata):
    """A cluster whose queues got one message per second."""

    def __init__(self) -> None:
        super().__init__(ConnectionOptions(name_servers="a:1"), "")

    def offsets_at(self, times: "dict[MessageQueue, int]", ends: Offsets) -> QueueOffsets:  # type: ignore[override]
        return QueueOffsets({queue: min(-(-millis // 1000), ends[queue]) for queue, millis in times.items()})


def _narrowed(*filters: Filter) -> list[QueueRange]:
    return pushed_filters(filters).narrow(Timed(), RANGES, {part.queue: 100 for part in RANGES})


def test_queues_without_possible_matches_are_not_read() -> None:
    assert _narrowed(EqualTo(("topic",), "a"), In(("brokerName",), ("y", "z"))) == [QueueRange("a", "y", 0, 0, 100)]
    assert _narrowed(EqualTo(("queueId",), 1)) == []
    assert _narrowed(EqualTo(("topic",), "a"), EqualTo(("topic",), "b")) == []


def test_offsets_are_narrowed() -> None:
    parts = _narrowed(
        EqualTo(("topic",), "a"), GreaterThan(("queueOffset",), 40), LessThanOrEqual(("queueOffset",), 50)
    )

    assert {(part.start, part.end) for part in parts} == {(40, 51)}


def test_times_are_narrowed_with_slack_for_clocks_set_back() -> None:
    first, last = (datetime.fromtimestamp(second, UTC) for second in (70, 75))

    parts = _narrowed(GreaterThan(("storeTimestamp",), first))
    assert {(part.start, part.end) for part in parts} == {(10, 100)}
    parts = _narrowed(LessThanOrEqual(("storeTimestamp",), last))
    assert {(part.start, part.end) for part in parts} == {(0, 100)}
    parts = _narrowed(LessThanOrEqual(("storeTimestamp",), datetime.fromtimestamp(10, UTC)))
    assert {(part.start, part.end) for part in parts} == {(0, 71)}


def test_tags_are_pushed_if_they_can_be_a_subscription() -> None:
    assert pushed_filters([In(("tags",), ("a", "b"))]).tags == {"a", "b"}
    assert pushed_filters([EqualTo(("tags",), "a || b")]).tags == frozenset()
    assert pushed_filters([EqualTo(("tags",), "*")]).tags == frozenset()


def test_filters_that_cannot_be_used_are_ignored() -> None:
    filters: list[Filter] = [
        *(Not(EqualTo(("topic",), "a")), IsNotNull(("tags",)), StringStartsWith(("topic",), "a")),
        *(EqualTo(("keys",), "k"), EqualTo(("properties", "topic"), "a"), EqualTo(("bornTimestamp",), 1)),
    ]

    assert _narrowed(*filters) == RANGES
