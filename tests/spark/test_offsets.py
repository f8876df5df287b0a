"""Offsets in JSON."""

import json
from typing import Any

import pytest

from kerolox.spark.offsets import (
    Place,
    QueueRange,
    check_times,
    from_json,
    listed,
    queues_from_json,
    ranges,
    time_of,
    to_json,
)
from kerolox.wire.bodies.queues import MessageQueue

A0, A1, A10, B0 = (
    MessageQueue(broker, queue, "orders")
    for broker, queue in (("broker-a", 0), ("broker-a", 1), ("broker-a", 10), ("broker-b", 0))
)


def test_the_same_offsets_are_always_the_same_text() -> None:
    one, other = to_json({A0: 1, A10: 3, A1: 2, B0: 4}), to_json({B0: 4, A1: 2, A10: 3, A0: 1})

    assert json.dumps(one) == json.dumps(other)
    assert json.dumps(one) == '{"orders": {"broker-a": {"0": 1, "1": 2, "10": 3}, "broker-b": {"0": 4}}}'
    assert from_json(one) == {A0: 1, A1: 2, A10: 3, B0: 4}


@pytest.mark.parametrize("wrong", [{"a": 1}, {"a": {"b": 1}}, {"a": {"b": {"x": 1}}}, {"a": {"b": {"0": "1"}}}, [1]])
def test_what_is_of_another_form_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError):
        from_json(wrong)


def test_a_place_keeps_where_new_queues_begin() -> None:
    place = Place({A0: 5, B0: 9}, {B0: 2})

    assert Place.from_json(json.loads(json.dumps(place.to_json()))) == place
    assert place.to_json() != {}


def test_a_batch_reads_between_two_places_and_new_queues_from_where_they_begin() -> None:
    start, end = Place({A0: 3, A1: 8}), Place({A0: 5, A1: 8, B0: 9, A10: 1}, {B0: 2, A10: 1})

    assert ranges(start, end) == [QueueRange("orders", "broker-a", 0, 3, 5), QueueRange("orders", "broker-b", 0, 2, 9)]


def test_a_batch_may_begin_anew_where_the_last_one_had_come_further() -> None:
    start, end = Place({A0: 9, A1: 2}), Place({A0: 5, A1: 3, B0: 4}, {B0: 0}, {A0: 1, B0: 2})

    assert Place.from_json(json.loads(json.dumps(end.to_json()))) == end
    assert ranges(start, end) == [
        QueueRange("orders", "broker-a", 0, 1, 5),
        QueueRange("orders", "broker-a", 1, 2, 3),
        QueueRange("orders", "broker-b", 0, 2, 4),
    ]


def test_nothing_lies_between_places_that_go_backwards() -> None:
    assert ranges(Place({A0: 9}), Place({A0: 5})) == []


def test_a_time_may_be_said_for_all_for_a_topic_a_broker_or_a_queue() -> None:
    assert time_of(7, A0) == 7
    assert time_of({"orders": 7}, A0) == 7
    assert time_of({"orders": {"broker-a": 7}}, A0) == 7
    times = {"orders": {"broker-a": {"0": 7}}}
    assert (time_of(times, A0), time_of(times, A1), time_of(times, B0)) == (7, None, None)


@pytest.mark.parametrize("wrong", [{"a": -1}, {"a": True}, {"a": {"b": {"0": {"x": 1}}}}, {"a": "1"}])
def test_times_must_be_times(wrong: Any) -> None:
    with pytest.raises(ValueError):
        check_times(wrong)


def test_queues_are_listed_once() -> None:
    assert queues_from_json({"orders": {"broker-b": [0], "broker-a": [1, 0, 1]}}) == (A0, A1, B0)
    with pytest.raises(ValueError):
        queues_from_json({"orders": {"broker-a": [-1]}})


def test_many_queues_are_not_all_named() -> None:
    queues = [MessageQueue("b", number, "t") for number in range(7)]

    assert listed(queues) == "t b 0, t b 1, t b 2, t b 3, t b 4 and 2 more"
