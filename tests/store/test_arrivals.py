"""Who waits for the next message of a queue."""

import asyncio

from kerolox.store.arrivals import Arrivals


async def test_all_who_wait_for_a_queue_are_woken_and_no_others() -> None:
    arrivals = Arrivals()
    waiting = [asyncio.create_task(arrivals.wait("orders", 0, seconds=20)) for _ in range(3)]
    other = asyncio.create_task(arrivals.wait("orders", 1, seconds=20))
    await asyncio.sleep(0)
    assert len(arrivals) == 4

    arrivals.notify("orders", 0)

    assert await asyncio.gather(*waiting) == [True] * 3
    assert len(arrivals) == 1
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    assert len(arrivals) == 0


async def test_who_waits_in_vain_is_told_so_and_forgotten() -> None:
    arrivals = Arrivals()

    assert not await arrivals.wait("orders", 0, seconds=0.001)

    assert len(arrivals) == 0


async def test_who_waits_again_while_others_are_woken_is_not_forgotten() -> None:
    arrivals = Arrivals()
    first = asyncio.create_task(arrivals.wait("orders", 0, seconds=20))
    await asyncio.sleep(0)

    arrivals.notify("orders", 0)
    second = asyncio.create_task(arrivals.wait("orders", 0, seconds=20))
    assert await first
    arrivals.notify("orders", 0)

    assert await second


async def test_who_came_first_is_woken_first() -> None:
    arrivals = Arrivals()
    woken: list[int] = []

    async def wait(number: int) -> None:
        await arrivals.wait("orders", 0, seconds=20)
        woken.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(100)]
    await asyncio.sleep(0)

    arrivals.notify("orders", 0)

    await asyncio.gather(*waiting)
    assert woken == list(range(100))
