"""Responses to sends when the store cannot keep up, over a real socket and a disk that stalls."""

import asyncio
from pathlib import Path

import pytest

from kerolox.broker import Broker
from kerolox.broker.errors import ServiceNotAvailable
from kerolox.broker.send.put import refusal
from kerolox.errors import AnswerError, SystemBusy, SystemFailure
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.remoting.client import Client
from kerolox.store.errors import NotStorable, StoreBusy, StoreFull, StoreReadOnly, TimerIllegal, WaitedTooLong
from tests.broker.brokers import BrokerFixture, settings
from tests.store.log.test_allocator import SlowDisk

SMALL_LOG = {"mappedFileSizeCommitLog": "65536"}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotStorable("too large"), MessageIllegal),
        (TimerIllegal("no time"), MessageIllegal),
        (RecordError("no batch"), MessageIllegal),
        (StoreFull("no room"), ServiceNotAvailable),
        (StoreReadOnly("a sync failed"), ServiceNotAvailable),
        (StoreBusy("too much"), SystemBusy),
        (WaitedTooLong(201, 3), SystemBusy),
        (ValueError("?"), SystemFailure),
    ],
)
def test_every_reason_has_its_code(error: Exception, told: type[AnswerError]) -> None:
    assert type(refusal(error)) is told


async def test_a_send_that_waits_too_long_for_the_disk_is_told_that_the_broker_is_busy() -> None:
    disk = SlowDisk()
    changed = settings(Path("/store"), waitTimeMillsInSendQueue="30", **SMALL_LOG)
    async with Broker(changed, disk=disk) as started, Client() as client:
        broker = BrokerFixture(started, client)
        await broker.send("orders", bytes(20_000))
        disk.is_slow = True
        await broker.send("orders", bytes(20_000))
        await broker.send("orders", bytes(20_000))

        refused = await asyncio.gather(
            *(broker.send("orders", b"%d" % number + bytes(20_000)) for number in range(3)), return_exceptions=True
        )

        assert all(isinstance(error, SystemBusy) for error in refused)
        assert isinstance(refused[0], SystemBusy)
        words = r"\[TIMEOUT_CLEAN_QUEUE\]broker busy, start flow control for a while, period in queue: \d+ms, size of"
        with pytest.raises(SystemBusy, match=words):
            raise refused[0]
        assert started.router._request_queues["send"].under_way == 0
        disk.is_slow = False
        disk.permits.release(1000)
        await started.store.allocator.close()
        assert (await broker.send("orders", bytes(20_000))).queue_offset == 3


async def test_more_bytes_than_may_wait_are_refused_at_once() -> None:
    disk = SlowDisk()
    changed = settings(Path("/store"), waitTimeMillsInSendQueue="20000", putBytesPendingMax="45000", **SMALL_LOG)
    async with Broker(changed, disk=disk) as started, Client() as client:
        broker = BrokerFixture(started, client)
        await broker.send("orders", bytes(20_000))
        disk.is_slow = True
        await broker.send("orders", bytes(20_000))
        await broker.send("orders", bytes(20_000))
        waiting = [asyncio.create_task(broker.send("orders", bytes(20_000)))]
        async with asyncio.timeout(10):
            while not started.store.is_stalled:
                await asyncio.sleep(0)
        waiting += [asyncio.create_task(broker.send("orders", bytes(20_000))) for _ in range(2)]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=10)

        assert [type(task.exception()) for task in done] == [SystemBusy]

        disk.is_slow = False
        disk.permits.release(1000)
        stored = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(answer, SystemBusy) for answer in stored) == 1
        assert len(await broker.messages("orders")) == 5
