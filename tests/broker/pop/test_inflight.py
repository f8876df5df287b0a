"""What is out and not settled."""

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
