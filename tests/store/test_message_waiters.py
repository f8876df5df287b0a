"""Waiting for the next message of a queue."""

import asyncio

from kerolox.store.message_waiters import MessageWaiters


async def test_a_message_wakes_all_waiters_of_its_queue_and_no_others() -> None:
    waiters = MessageWaiters()
    waiting = [asyncio.create_task(waiters.wait("orders", 0, seconds=20)) for _ in range(3)]
    other = asyncio.create_task(waiters.wait("orders", 1, seconds=20))
    await asyncio.sleep(0)
    assert len(waiters) == 4

    waiters.notify("orders", 0)

    assert await asyncio.gather(*waiting) == [True] * 3
    assert len(waiters) == 1
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    assert len(waiters) == 0


async def test_a_wait_that_times_out_returns_false_and_is_removed() -> None:
    waiters = MessageWaiters()

    assert not await waiters.wait("orders", 0, seconds=0.001)

    assert len(waiters) == 0


async def test_a_waiter_that_comes_while_others_are_woken_is_kept() -> None:
    waiters = MessageWaiters()
    first = asyncio.create_task(waiters.wait("orders", 0, seconds=20))
    await asyncio.sleep(0)

    waiters.notify("orders", 0)
    second = asyncio.create_task(waiters.wait("orders", 0, seconds=20))
    assert await first
    waiters.notify("orders", 0)

    assert await second


async def test_waiters_are_woken_in_the_order_of_their_arrival() -> None:
    waiters = MessageWaiters()
    woken: list[int] = []

    async def wait(number: int) -> None:
        await waiters.wait("orders", 0, seconds=20)
        woken.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(100)]
    await asyncio.sleep(0)

    waiters.notify("orders", 0)

    await asyncio.gather(*waiting)
    assert woken == list(range(100))


async def test_many_waiters_are_woken_in_portions_and_in_order() -> None:
    """A woken waiter reads and answers: 20,000 of them in one iteration of the loop would block everything else."""
    waiters = MessageWaiters(wakes_max=100)
    woken: list[int] = []

    async def wait(number: int) -> None:
        assert await waiters.wait("orders", 0, seconds=20)
        woken.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(1050)]
    await asyncio.sleep(0)

    waiters.notify("orders", 0)

    portions: list[int] = []
    while len(woken) < len(waiting):
        before = len(woken)
        await asyncio.sleep(0)
        portions.append(len(woken) - before)
    assert max(portions) <= 100
    assert len(portions) < 30
    assert woken == list(range(1050))
    await asyncio.gather(*waiting)


async def test_the_limit_of_wakeups_holds_for_all_queues_together() -> None:
    waiters = MessageWaiters(wakes_max=100)
    waiting = [asyncio.create_task(waiters.wait("orders", number % 50, seconds=20)) for number in range(1000)]
    await asyncio.sleep(0)

    waiters.notify_all(("orders", number) for number in range(50))

    most = done = 0
    while done < len(waiting):
        await asyncio.sleep(0)
        done, before = sum(task.done() for task in waiting), done
        most = max(most, done - before)
    assert most <= 100
    assert await asyncio.gather(*waiting) == [True] * 1000


async def test_many_waiters_of_one_queue_do_not_delay_another_queue() -> None:
    waiters = MessageWaiters(wakes_max=10)
    many = [asyncio.create_task(waiters.wait("orders", 0, seconds=20)) for _ in range(1000)]
    one = asyncio.create_task(waiters.wait("bills", 0, seconds=20))
    await asyncio.sleep(0)

    waiters.notify("orders", 0)
    waiters.notify("bills", 0)

    assert await one
    assert sum(task.done() for task in many) < 100
    assert await asyncio.gather(*many) == [True] * 1000


async def test_waiters_for_a_second_message_are_woken_after_those_for_the_first() -> None:
    waiters = MessageWaiters(wakes_max=10)
    woken: list[int] = []

    async def wait(number: int) -> None:
        await waiters.wait("orders", 0, seconds=20)
        woken.append(number)

    first = [asyncio.create_task(wait(number)) for number in range(100)]
    await asyncio.sleep(0)
    waiters.notify("orders", 0)
    later = [asyncio.create_task(wait(number)) for number in range(100, 150)]
    await asyncio.sleep(0)
    waiters.notify("orders", 0)

    await asyncio.gather(*first, *later)

    assert woken == list(range(150))


async def test_a_cancelled_waiter_is_skipped() -> None:
    waiters = MessageWaiters(wakes_max=10)
    waiting = [asyncio.create_task(waiters.wait("orders", 0, seconds=20)) for _ in range(100)]
    await asyncio.sleep(0)
    waiters.notify("orders", 0)
    for task in waiting[50:]:
        task.cancel()

    found = await asyncio.gather(*waiting, return_exceptions=True)

    assert found[:50] == [True] * 50
    assert all(isinstance(error, asyncio.CancelledError) for error in found[50:])
    assert len(waiters) == 0
