"""What filters say about what need not be read."""

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

from kerolox.spark.cluster import Cluster, Found
from kerolox.spark.connecting import Connect
from kerolox.spark.offsets import Offsets, QueueRange
from kerolox.spark.pushing import narrowing_of
from kerolox.wire.bodies.queues import MessageQueue

RANGES = [QueueRange(topic, broker, 0, 0, 100) for topic in ("a", "b") for broker in ("x", "y")]


class Timed(Cluster):
    """Queues into which a message came every second."""

    def __init__(self) -> None:
        super().__init__(Connect(name_servers="a:1"), "")

    def at(self, times: "dict[MessageQueue, int]", ends: Offsets) -> Found:  # type: ignore[override]
        return Found({queue: min(-(-millis // 1000), ends[queue]) for queue, millis in times.items()})


def _applied(*filters: Filter) -> list[QueueRange]:
    return narrowing_of(filters).applied(Timed(), RANGES, {part.queue: 100 for part in RANGES})


def test_queues_that_nothing_can_pass_are_not_read() -> None:
    assert _applied(EqualTo(("topic",), "a"), In(("brokerName",), ("y", "z"))) == [QueueRange("a", "y", 0, 0, 100)]
    assert _applied(EqualTo(("queueId",), 1)) == []
    assert _applied(EqualTo(("topic",), "a"), EqualTo(("topic",), "b")) == []


def test_offsets_are_narrowed() -> None:
    parts = _applied(EqualTo(("topic",), "a"), GreaterThan(("queueOffset",), 40), LessThanOrEqual(("queueOffset",), 50))

    assert {(part.start, part.end) for part in parts} == {(40, 51)}


def test_times_are_narrowed_with_room_for_clocks_that_went_back() -> None:
    first, last = (datetime.fromtimestamp(second, UTC) for second in (70, 75))

    parts = _applied(GreaterThan(("storeTimestamp",), first))
    assert {(part.start, part.end) for part in parts} == {(10, 100)}
    parts = _applied(LessThanOrEqual(("storeTimestamp",), last))
    assert {(part.start, part.end) for part in parts} == {(0, 100)}
    parts = _applied(LessThanOrEqual(("storeTimestamp",), datetime.fromtimestamp(10, UTC)))
    assert {(part.start, part.end) for part in parts} == {(0, 71)}


def test_tags_are_asked_for_if_they_can_be_said() -> None:
    assert narrowing_of([In(("tags",), ("a", "b"))]).tags == {"a", "b"}
    assert narrowing_of([EqualTo(("tags",), "a || b")]).tags == frozenset()
    assert narrowing_of([EqualTo(("tags",), "*")]).tags == frozenset()


def test_what_says_nothing_here_is_passed_over() -> None:
    filters: list[Filter] = [
        *(Not(EqualTo(("topic",), "a")), IsNotNull(("tags",)), StringStartsWith(("topic",), "a")),
        *(EqualTo(("keys",), "k"), EqualTo(("properties", "topic"), "a"), EqualTo(("bornTimestamp",), 1)),
    ]

    assert _applied(*filters) == RANGES
