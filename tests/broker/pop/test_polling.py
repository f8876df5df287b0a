"""A wake-up reaches one who waits, and is never lost."""

import asyncio

import pytest

from kerolox.broker.pop.polling import Polling, PollingFull
from kerolox.store.arrivals import Arrivals


def made(size_max: int = 100) -> tuple[Polling, Arrivals]:
    arrivals = Arrivals()
    return Polling(arrivals, queue_size_max=10, size_max=size_max), arrivals


async def waiting(polling: Polling, topic: str, group: str, queue_id: int) -> asyncio.Task[bool]:
    task = asyncio.create_task(polling.wait(topic, group, queue_id, seconds=60))
    await asyncio.sleep(0)
    return task


async def test_a_message_wakes_one_of_each_group_and_kind() -> None:
    polling, arrivals = made()
    tasks = [await waiting(polling, "t", group, queue) for group in "gh" for queue in (-1, -1, 2, 3)]

    arrivals.notify("t", 2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert [task.done() for task in tasks] == [True, False, True, False] * 2
    for task in tasks:
        task.cancel()


async def test_what_comes_again_wakes_whatever_queue_is_waited_for() -> None:
    polling, arrivals = made()
    first, second = await waiting(polling, "t", "g", 3), await waiting(polling, "t", "other", 3)

    arrivals.notify("%RETRY%g_t", 0)

    assert await first
    assert not second.done()
    arrivals.notify("%RETRY%other+t", 0)
    assert await second


async def test_a_wake_up_is_handed_on_by_one_who_went_away() -> None:
    polling, arrivals = made()
    first, second = await waiting(polling, "t", "g", -1), await waiting(polling, "t", "g", -1)

    arrivals.notify("t", 0)
    first.cancel()

    async with asyncio.timeout(5):
        assert await second


async def test_too_many_may_not_wait() -> None:
    polling, _ = made(size_max=2)
    tasks = [await waiting(polling, "t", "g", queue) for queue in (0, 1)]

    with pytest.raises(PollingFull):
        await polling.wait("t", "g", 2, seconds=60)

    assert polling.waiting("t", "g", 0) == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(polling) == 0


async def test_when_nobody_waits_nothing_is_watched() -> None:
    polling, arrivals = made()

    assert not await polling.wait("t", "g", -1, seconds=0.001)

    arrivals.notify("t", 0)
    assert arrivals._watchers == {}
