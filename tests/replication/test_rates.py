"""Bytes per second."""

from kerolox.replication.rates import ByteRate
from tests.store.stores import StillClock


def test_bytes_are_counted_by_second() -> None:
    clock = StillClock(1_700_000_000_250)
    rate = ByteRate(clock)
    rate.add(10)
    rate.add(5)
    assert (rate.in_this_second, rate.in_last_second, rate.second_left) == (15, 0, 0.75)
    clock.move(1)
    assert (rate.in_this_second, rate.in_last_second) == (0, 15)
    rate.add(7)
    clock.move(2)
    assert (rate.in_this_second, rate.in_last_second) == (0, 0)
