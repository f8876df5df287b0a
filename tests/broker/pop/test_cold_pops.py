"""Pops and peeks of messages that are not in memory do not wait for the disk on the event loop."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from kerolox.broker.errors import PollingTimeout
from kerolox.errors import SystemFailure
from kerolox.message.records.record import decode_all
from kerolox.wire.headers.pop import Notification, PeekMessage, Popped
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture
from tests.broker.cold_brokers import cold_broker
from tests.broker.pop.pops import GROUP, popping
from tests.store.log.test_cold_reads import ColdDisk


async def fill(broker: BrokerFixture) -> None:
    """Send 20 messages to each of two queues; half of them have the tag `red`."""
    for number in range(40):
        await broker.send("orders", b"%d" % number, number % 2, TAGS="red" if number < 20 else "blue")


def bodies(reply: Reply[Popped]) -> list[bytes]:
    return [message.body for message in decode_all(reply.body)]


async def pop(broker: BrokerFixture, **fields: Any) -> Reply[Popped]:
    return await broker.call(popping("orders", **fields))


async def test_a_pop_reads_old_messages_in_a_thread() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill) as broker:
        first, second = await pop(broker), await pop(broker)

        assert (len(bodies(first)), len(bodies(second))) == (32, 8)
        assert sorted(bodies(first) + bodies(second)) == sorted(b"%d" % number for number in range(40))
        assert (first.fields.rest_num, second.fields.rest_num) == (8, 0)
        assert disk.on_loop == 0


async def test_a_pop_in_order_reads_old_messages_in_a_thread() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill) as broker:
        reply = await pop(broker, queue_id=1, order=True)

        assert bodies(reply) == [b"%d" % number for number in range(1, 40, 2)]
        assert disk.on_loop == 0


async def test_messages_in_memory_are_popped_while_the_disk_hangs() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill, is_hanging=True) as broker:
        waiting = asyncio.create_task(pop(broker, queue_id=0, max_msg_nums=5))
        assert await asyncio.to_thread(disk.begun.acquire, timeout=20)
        await broker.send("orders", b"new", 3)

        recent = await pop(broker)

        assert (bodies(recent), recent.fields.rest_num, waiting.done()) == ([b"new"], 40, False)
        disk.permits.release(1000)
        assert bodies(await waiting) == [b"0", b"2", b"4", b"6", b"8"]
        assert disk.on_loop == 0


async def test_queues_on_disk_are_not_starved_by_queues_in_memory() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill) as broker:
        popped: list[list[bytes]] = []
        for number in range(4):
            await broker.send("orders", b"new-%d" % number, 3)
            popped.append(bodies(await pop(broker, max_msg_nums=25)))

        assert popped[0] == [b"new-0"]
        assert len(popped[1]) == 25
        assert popped[2] == [b"new-1", b"new-2"]
        assert len(popped[3]) == 15
        assert disk.on_loop == 0


async def test_concurrent_pops_of_a_queue_on_disk_return_each_message_once() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill, is_hanging=True) as broker:
        waiting = [asyncio.create_task(pop(broker, max_msg_nums=7, poll_time=10_000)) for _ in range(6)]
        assert await asyncio.to_thread(disk.begun.acquire, timeout=20)
        disk.permits.release(1000)

        replies = await asyncio.gather(*waiting)

        found = [body for reply in replies for body in bodies(reply)]
        assert sorted(found) == sorted(b"%d" % number for number in range(40))
        assert disk.on_loop == 0


async def test_a_waiting_pop_whose_filter_rejects_the_old_messages_gets_a_new_one() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill, is_hanging=True, enablePropertyFilter="true") as broker:
        request = pop(broker, exp="TAGS = 'green'", exp_type="SQL92", poll_time=60_000)
        waiting = asyncio.create_task(request)
        assert await asyncio.to_thread(disk.begun.acquire, timeout=20)
        # The scan has passed this queue and waits for another.
        await broker.send("orders", b"new", 3, TAGS="green")
        disk.permits.release(1000)

        assert bodies(await waiting) == [b"new"]
        assert disk.on_loop == 0


async def test_a_pop_of_old_messages_with_a_filter_returns_those_that_match() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill, enablePropertyFilter="true") as broker:
        reply = await pop(broker, queue_id=1, exp="TAGS = 'blue'", exp_type="SQL92")

        assert bodies(reply) == [b"%d" % number for number in range(21, 40, 2)]
        assert disk.on_loop == 0


async def test_a_bad_sector_fails_only_pops_that_need_it() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill) as broker:
        disk.fail("read", errno.EIO, inside="commitlog")
        await broker.send("orders", b"new", 3)

        with pytest.raises(SystemFailure, match="Input/output error"):
            await pop(broker, queue_id=0)
        assert bodies(await pop(broker)) == [b"new"]

        disk.heal()
        assert len(bodies(await pop(broker, queue_id=0))) == 20


async def test_a_peek_reads_old_messages_in_a_thread() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill) as broker:
        reply = await broker.call(PeekMessage(consumer_group=GROUP, topic="orders", queue_id=0, max_msg_nums=3))

        assert (bodies(reply), reply.fields.rest_num) == ([b"0", b"2", b"4"], 20)
        assert disk.on_loop == 0


async def test_a_notification_does_not_read_old_messages() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill, is_hanging=True, enablePropertyFilter="true") as broker:
        request = Notification(
            consumer_group=GROUP,
            topic="orders",
            queue_id=0,
            poll_time=0,
            born_time=0,
            exp="TAGS = 'green'",
            exp_type="SQL92",
        )
        reply = await broker.call(request)

        # The pop that follows finds that no message matches.
        assert reply.fields.has_msg
        assert disk.on_loop == 0
        disk.permits.release(1000)
        with pytest.raises(PollingTimeout):
            await pop(broker, queue_id=0, exp="TAGS = 'green'", exp_type="SQL92")
        assert not (await broker.call(request)).fields.has_msg
