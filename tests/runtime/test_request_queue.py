"""RequestQueue: the limit on requests under way."""

import pytest

from kerolox.errors import SystemBusy
from kerolox.runtime.request_queue import RequestQueue


def test_a_full_queue_refuses_requests() -> None:
    queue = RequestQueue("send", 2)
    queue.enter()
    queue.enter()

    with pytest.raises(SystemBusy) as caught:
        queue.enter()

    assert caught.value.remark == "[OVERLOAD]system busy, 2 requests under way in queue 'send', at most 2 admitted"
    assert queue.under_way == 2


def test_a_queue_admits_again_after_a_request_has_left() -> None:
    queue = RequestQueue("send", 1)
    queue.enter()
    queue.leave()

    queue.enter()

    assert queue.under_way == 1


def test_leaving_without_entering_is_an_error() -> None:
    with pytest.raises(AssertionError):
        RequestQueue("send", 1).leave()


def test_a_parked_request_does_not_count_and_resumes_even_in_a_full_queue() -> None:
    queue = RequestQueue("pull", 1)
    queue.enter()

    queue.park()
    queue.enter()
    queue.resume()

    assert (queue.under_way, queue.parked) == (2, 0)


def test_the_number_of_parked_requests_is_limited() -> None:
    queue = RequestQueue("pull", 10)
    queue.parked_max = 1
    queue.enter()
    queue.enter()
    queue.park()

    with pytest.raises(SystemBusy) as caught:
        queue.park()

    assert caught.value.remark == "[OVERLOAD]system busy, 1 requests wait in queue 'pull', at most 1 may"
    assert (queue.under_way, queue.parked) == (1, 1)
