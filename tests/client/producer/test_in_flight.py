import asyncio

import pytest

from kerolox.client.producer.in_flight import InFlight


async def test_places_are_given_in_the_order_of_coming() -> None:
    places = InFlight(1)
    order: list[int] = []

    async def take(number: int) -> None:
        if places.is_full:
            await places.wait()
        else:
            places.enter()
        order.append(number)
        await asyncio.sleep(0)
        places.leave()

    await asyncio.gather(*map(take, range(5)))

    assert order == [0, 1, 2, 3, 4]
    assert places.count == 0


async def test_who_stops_waiting_leaves_no_place_taken() -> None:
    places = InFlight(1)
    places.enter()
    leaving, staying = asyncio.create_task(places.wait()), asyncio.create_task(places.wait())
    await asyncio.sleep(0)

    leaving.cancel()
    places.leave()
    await staying
    places.leave()

    assert places.count == 0
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_who_is_cancelled_just_as_it_gets_its_place_hands_it_on() -> None:
    places = InFlight(1)
    places.enter()
    leaving, staying = asyncio.create_task(places.wait()), asyncio.create_task(places.wait())
    await asyncio.sleep(0)

    places.leave()
    leaving.cancel()

    await staying
    places.leave()
    assert places.count == 0
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_emptiness_is_waited_for() -> None:
    places = InFlight(2)
    await places.empty()
    places.enter()
    places.enter()
    waiting = [asyncio.create_task(places.empty()) for _ in range(2)]
    places.leave()
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)

    places.leave()

    await asyncio.gather(*waiting)
