"""Offsets in JSON."""

import json
from typing import Any

import pytest

from kerolox.spark.read.offset_json import (
    QueueRange,
    StreamPosition,
    check_timestamps,
    format_queues,
    from_json,
    queues_from_json,
    ranges_between,
    timestamp_of,
    to_json,
)
from kerolox.wire.bodies.queues import MessageQueue

A0, A1, A10, B0 = (
    MessageQueue(broker, queue, "orders")
    for broker, queue in (("broker-a", 0), ("broker-a", 1), ("broker-a", 10), ("broker-b", 0))
)


def test_equal_offsets_have_the_same_json_text() -> None:
    one, other = to_json({A0: 1, A10: 3, A1: 2, B0: 4}), to_json({B0: 4, A1: 2, A10: 3, A0: 1})

    assert json.dumps(one) == json.dumps(other)
    assert json.dumps(one) == '{"orders": {"broker-a": {"0": 1, "1": 2, "10": 3}, "broker-b": {"0": 4}}}'
    assert from_json(one) == {A0: 1, A1: 2, A10: 3, B0: 4}


@pytest.mark.parametrize("wrong", [{"a": 1}, {"a": {"b": 1}}, {"a": {"b": {"x": 1}}}, {"a": {"b": {"0": "1"}}}, [1]])
def test_malformed_json_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError):
        from_json(wrong)


def test_a_position_keeps_the_first_offsets_of_new_queues() -> None:
    position = StreamPosition({A0: 5, B0: 9}, {B0: 2})

    assert StreamPosition.from_json(json.loads(json.dumps(position.to_json()))) == position
    assert position.to_json() != {}


def test_a_batch_reads_between_two_positions_and_new_queues_from_their_start() -> None:
    start, end = StreamPosition({A0: 3, A1: 8}), StreamPosition({A0: 5, A1: 8, B0: 9, A10: 1}, {B0: 2, A10: 1})

    assert ranges_between(start, end) == [
        QueueRange("orders", "broker-a", 0, 3, 5),
        QueueRange("orders", "broker-b", 0, 2, 9),
    ]


def test_a_recreated_queue_may_start_before_the_last_offset() -> None:
    start, end = StreamPosition({A0: 9, A1: 2}), StreamPosition({A0: 5, A1: 3, B0: 4}, {B0: 0}, {A0: 1, B0: 2})

    assert StreamPosition.from_json(json.loads(json.dumps(end.to_json()))) == end
    assert ranges_between(start, end) == [
        QueueRange("orders", "broker-a", 0, 1, 5),
        QueueRange("orders", "broker-a", 1, 2, 3),
        QueueRange("orders", "broker-b", 0, 2, 4),
    ]


def test_positions_that_go_backwards_have_no_ranges() -> None:
    assert ranges_between(StreamPosition({A0: 9}), StreamPosition({A0: 5})) == []


def test_a_time_may_be_given_for_all_a_topic_a_broker_or_a_queue() -> None:
    assert timestamp_of(7, A0) == 7
    assert timestamp_of({"orders": 7}, A0) == 7
    assert timestamp_of({"orders": {"broker-a": 7}}, A0) == 7
    times = {"orders": {"broker-a": {"0": 7}}}
    assert (timestamp_of(times, A0), timestamp_of(times, A1), timestamp_of(times, B0)) == (7, None, None)


@pytest.mark.parametrize("wrong", [{"a": -1}, {"a": True}, {"a": {"b": {"0": {"x": 1}}}}, {"a": "1"}])
def test_invalid_times_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError):
        check_timestamps(wrong)


def test_queues_are_parsed_without_duplicates() -> None:
    assert queues_from_json({"orders": {"broker-b": [0], "broker-a": [1, 0, 1]}}) == (A0, A1, B0)
    with pytest.raises(ValueError):
        queues_from_json({"orders": {"broker-a": [-1]}})


def test_only_the_first_queues_are_named() -> None:
    queues = [MessageQueue("b", number, "t") for number in range(7)]

    assert format_queues(queues) == "t b 0, t b 1, t b 2, t b 3, t b 4 and 2 more"
