import asyncio

import pytest

from kerolox.dashboard.views.pagination import gather_limited, gather_with_timeout, paginate, user_groups
from kerolox.runtime.clock import ManualClock


@pytest.mark.parametrize(
    ("number", "items", "shown"), [(1, [0, 1, 2], 1), (3, [6], 3), (99, [6], 3)], ids=["first", "last", "beyond"]
)
def test_a_page_contains_its_part_of_the_list(number: int, items: list[int], shown: int) -> None:
    part = paginate(range(7), number, 3)

    assert list(part.items) == items
    assert (part.number, part.count, part.total) == (shown, 3, 7)


def test_an_empty_list_has_one_page() -> None:
    assert paginate([], 5).count == 1


async def test_results_are_in_the_order_of_the_items() -> None:
    async def double(number: int) -> int:
        return number * 2

    assert await gather_limited(range(50), double) == list(range(0, 100, 2))


async def test_a_request_that_times_out_is_none_and_cancelled() -> None:
    clock, never, cancelled = ManualClock(), asyncio.Event(), []

    async def ask(number: int) -> int:
        try:
            if number == 1:
                await never.wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number * 2

    asking = asyncio.create_task(gather_with_timeout(range(3), ask, clock, 5))
    await clock.advance(4.9)
    assert not asking.done()
    await clock.advance(0.2)

    assert await asking == [0, None, 4]
    assert cancelled == [1]
    assert await gather_with_timeout([], ask, clock, 5) == []


def test_groups_of_brokers_and_tools_are_filtered_out() -> None:
    assert user_groups(["shop", "TOOLS_CONSUMER", "CID_ONSAPI_PULL", "CID_RMQ_SYS_TRANS", "cid_mine"]) == [
        "shop",
        "cid_mine",
    ]
