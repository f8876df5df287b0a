"""Counts of popped messages that are not settled."""

import pytest

from kerolox.broker.pop import in_flight as module
from kerolox.broker.pop.in_flight import InFlightCounts


def test_popped_messages_are_counted_until_they_are_settled() -> None:
    in_flight = InFlightCounts(1000)
    in_flight.popped("t", "g", 0, 1200, 5)

    in_flight.settled("t", "g", 0, 1500, 2)
    assert in_flight.count("t", "g", 0) == 3
    in_flight.settled("t", "g", 0, 999)
    assert in_flight.count("t", "g", 0) == 3
    in_flight.settled("t", "g", 0, 1500, 9)

    assert in_flight.count("t", "g", 0) == 0


def test_the_number_of_counted_queues_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUEUES_MAX", 2)
    in_flight = InFlightCounts(1000)

    for queue_id in range(3):
        in_flight.popped("t", "g", queue_id, 1200, 1)
    in_flight.popped("t", "g", 1, 1200, 4)

    assert [in_flight.count("t", "g", queue_id) for queue_id in range(3)] == [1, 5, 0]
    in_flight.settled("t", "g", 0, 1500)
    in_flight.popped("t", "g", 2, 1200, 1)
    assert in_flight.count("t", "g", 2) == 1


def test_messages_popped_after_the_clock_was_set_back_are_settled() -> None:
    in_flight = InFlightCounts(1000)
    in_flight.popped("t", "g", 0, 400, 2)

    in_flight.settled("t", "g", 0, 400, 2)

    assert in_flight.count("t", "g", 0) == 0
