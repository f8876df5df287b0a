import asyncio

import pytest

from kerolox.client.producer.in_flight import InFlightLimit


async def test_slots_are_given_first_come_first_served() -> None:
    limit = InFlightLimit(1)
    order: list[int] = []

    async def take(number: int) -> None:
        if limit.is_full:
            await limit.wait_and_enter()
        else:
            limit.enter()
        order.append(number)
        await asyncio.sleep(0)
        limit.leave()

    await asyncio.gather(*map(take, range(5)))

    assert order == [0, 1, 2, 3, 4]
    assert limit.count == 0


async def test_cancelling_a_waiter_takes_no_slot() -> None:
    limit = InFlightLimit(1)
    limit.enter()
    leaving, staying = asyncio.create_task(limit.wait_and_enter()), asyncio.create_task(limit.wait_and_enter())
    await asyncio.sleep(0)

    leaving.cancel()
    limit.leave()
    await staying
    limit.leave()

    assert limit.count == 0
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_a_waiter_cancelled_as_it_gets_its_slot_hands_it_on() -> None:
    limit = InFlightLimit(1)
    limit.enter()
    leaving, staying = asyncio.create_task(limit.wait_and_enter()), asyncio.create_task(limit.wait_and_enter())
    await asyncio.sleep(0)

    limit.leave()
    leaving.cancel()

    await staying
    limit.leave()
    assert limit.count == 0
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_wait_empty_returns_when_nothing_is_in_flight() -> None:
    limit = InFlightLimit(2)
    await limit.wait_empty()
    limit.enter()
    limit.enter()
    waiting = [asyncio.create_task(limit.wait_empty()) for _ in range(2)]
    limit.leave()
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)

    limit.leave()

    await asyncio.gather(*waiting)
