"""Pulls of old messages from a slow or broken disk, at the same time as sends and pulls of new ones."""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kerolox.broker import Broker
from kerolox.errors import SystemFailure
from kerolox.message.records.record import decode_all
from kerolox.remoting.client import Client
from tests.broker.brokers import BrokerFixture, settings
from tests.store.log.test_cold_reads import ColdDisk
from tests.store.stores import draft, put


@pytest.fixture
def disk() -> Iterator[ColdDisk]:
    disk = ColdDisk()
    yield disk
    disk.permits.release(1000)


@asynccontextmanager
async def restarted(disk: ColdDisk) -> AsyncIterator[BrokerFixture]:
    """Yield a restarted broker with a message that was stored before the restart."""
    async with Broker(settings(Path("/store")), disk=disk) as started, Client() as client:
        await BrokerFixture(started, client).send("orders", b"old")
    async with Broker(settings(Path("/store")), disk=disk) as started, Client() as client:
        yield BrokerFixture(started, client)


async def test_a_pull_of_an_old_message_does_not_delay_other_requests(disk: ColdDisk) -> None:
    async with restarted(disk) as broker:
        disk.is_slow = True
        old = asyncio.create_task(broker.pull("orders", 0))
        assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

        sent = await broker.send("orders", b"new")
        assert sent.queue_offset is not None
        new = await broker.pull("orders", sent.queue_offset)

        assert (new.fields.next_begin_offset, old.done()) == (2, False)
        disk.permits.release(1000)
        assert (await old).fields.next_begin_offset == 2
        disk.is_slow = False


async def test_a_bad_sector_fails_only_the_pull(disk: ColdDisk) -> None:
    async with restarted(disk) as broker:
        disk.fail("read", errno.EIO, inside="commitlog")

        for _ in range(2):
            with pytest.raises(SystemFailure, match="Input/output error"):
                await broker.pull("orders", 0)

        sent = await broker.send("orders", b"new")
        assert sent.queue_offset is not None
        assert (await broker.pull("orders", sent.queue_offset)).fields.next_begin_offset == 2
        disk.heal()


async def test_a_long_poll_can_read_new_messages_from_disk(disk: ColdDisk) -> None:
    changed = settings(Path("/store"), mappedBytesMax="0")
    async with Broker(changed, disk=disk) as started, Client() as client:
        broker = BrokerFixture(started, client)
        await broker.send("orders", b"first")
        waiting = asyncio.create_task(broker.pull("orders", 1, sys_flag=0x6, suspend_timeout_millis=10_000))
        async with asyncio.timeout(10):
            while not started.router._request_queues["pull"].parked:
                await asyncio.sleep(0)
        reads = disk.counts["read"]

        for body in (b"second", b"third"):
            put(started.store, draft(body))

        assert [message.body for message in decode_all((await waiting).body)] == [b"second", b"third"]
        assert disk.counts["read"] == reads + 1
