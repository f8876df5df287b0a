"""What is out and not settled."""

import pytest

from kerolox.broker.pop import inflight as module
from kerolox.broker.pop.inflight import Inflight


def test_what_is_popped_is_counted_until_it_is_settled() -> None:
    inflight = Inflight(1000)
    inflight.popped("t", "g", 0, 5)

    inflight.settled("t", "g", 0, 1500, 2)
    assert inflight.count("t", "g", 0) == 3
    inflight.settled("t", "g", 0, 999)
    assert inflight.count("t", "g", 0) == 3
    inflight.settled("t", "g", 0, 1500, 9)

    assert inflight.count("t", "g", 0) == 0


def test_so_many_queues_are_counted_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUEUES_MAX", 2)
    inflight = Inflight(1000)

    for queue_id in range(3):
        inflight.popped("t", "g", queue_id, 1)
    inflight.popped("t", "g", 1, 4)

    assert [inflight.count("t", "g", queue_id) for queue_id in range(3)] == [1, 5, 0]
    inflight.settled("t", "g", 0, 1500)
    inflight.popped("t", "g", 2, 1)
    assert inflight.count("t", "g", 2) == 1
