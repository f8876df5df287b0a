"""Lanes: a bound on requests under way."""

import pytest

from kerolox.errors import SystemBusy
from kerolox.runtime.lanes import Lane


def test_a_lane_admits_as_many_as_it_holds() -> None:
    lane = Lane("send", 2)
    lane.enter()
    lane.enter()

    with pytest.raises(SystemBusy) as caught:
        lane.enter()

    assert caught.value.remark == "[OVERLOAD]system busy, 2 requests under way in lane 'send', at most 2 admitted"
    assert lane.under_way == 2


def test_a_lane_admits_again_when_one_has_left() -> None:
    lane = Lane("send", 1)
    lane.enter()
    lane.leave()

    lane.enter()

    assert lane.under_way == 1


def test_nobody_leaves_a_lane_who_has_not_entered() -> None:
    with pytest.raises(AssertionError):
        Lane("send", 1).leave()


def test_who_is_parked_takes_no_place_and_comes_back_even_into_a_full_lane() -> None:
    lane = Lane("pull", 1)
    lane.enter()

    lane.park()
    lane.enter()
    lane.resume()

    assert (lane.under_way, lane.parked) == (2, 0)


def test_no_more_are_parked_than_may() -> None:
    lane = Lane("pull", 10)
    lane.parked_max = 1
    lane.enter()
    lane.enter()
    lane.park()

    with pytest.raises(SystemBusy) as caught:
        lane.park()

    assert caught.value.remark == "[OVERLOAD]system busy, 1 requests wait in lane 'pull', at most 1 may"
    assert (lane.under_way, lane.parked) == (1, 1)
