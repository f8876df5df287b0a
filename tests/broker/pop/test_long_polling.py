"""A wake-up reaches one waiting request, and is never lost."""

import asyncio

import pytest

from kerolox.broker.pop.long_polling import PollingFull, PopLongPolling
from kerolox.store.message_waiters import MessageWaiters


def create_polling(size_max: int = 100) -> tuple[PopLongPolling, MessageWaiters]:
    arrivals = MessageWaiters()
    return PopLongPolling(arrivals, queue_size_max=10, size_max=size_max), arrivals


async def start_waiting(polling: PopLongPolling, topic: str, group: str, queue_id: int) -> asyncio.Task[bool]:
    task = asyncio.create_task(polling.wait(topic, group, queue_id, seconds=60))
    await asyncio.sleep(0)
    return task


async def test_a_message_wakes_one_request_per_group_and_queue() -> None:
    polling, arrivals = create_polling()
    tasks = [await start_waiting(polling, "t", group, queue) for group in "gh" for queue in (-1, -1, 2, 3)]

    arrivals.notify("t", 2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert [task.done() for task in tasks] == [True, False, True, False] * 2
    for task in tasks:
        task.cancel()


async def test_a_retried_message_wakes_requests_of_every_queue() -> None:
    polling, arrivals = create_polling()
    first, second = await start_waiting(polling, "t", "g", 3), await start_waiting(polling, "t", "other", 3)

    arrivals.notify("%RETRY%g_t", 0)

    assert await first
    assert not second.done()
    arrivals.notify("%RETRY%other+t", 0)
    assert await second


async def test_a_cancelled_request_passes_its_wake_up_on() -> None:
    polling, arrivals = create_polling()
    first, second = await start_waiting(polling, "t", "g", -1), await start_waiting(polling, "t", "g", -1)

    arrivals.notify("t", 0)
    first.cancel()

    async with asyncio.timeout(5):
        assert await second


async def test_the_number_of_waiting_requests_is_limited() -> None:
    polling, _ = create_polling(size_max=2)
    tasks = [await start_waiting(polling, "t", "g", queue) for queue in (0, 1)]

    with pytest.raises(PollingFull):
        await polling.wait("t", "g", 2, seconds=60)

    assert polling.waiting("t", "g", 0) == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(polling) == 0


async def test_topics_are_watched_only_while_a_request_waits() -> None:
    polling, arrivals = create_polling()

    assert not await polling.wait("t", "g", -1, seconds=0.001)

    arrivals.notify("t", 0)
    assert arrivals._watchers == {}
