"""Delayed messages are delivered: on time, in order, and not again."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator

import pytest

from kerolox.message.message import Message
from kerolox.message.peek import peek
from kerolox.message.record import decode
from kerolox.runtime.clock import ManualClock, SystemClock
from kerolox.store.configuration import FlushDiskType
from kerolox.store.delay.delays import DELAY_MARK, SCHEDULE_TOPIC, diversion, parse_levels
from kerolox.store.delay.schedule import ScheduledDelivery
from kerolox.store.drafts import Drafts
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT, all_records, config, draft_of_size, new_store, put, without_threads

LEVELS = "1s 5s 2h"
DRAFTS = Drafts({DELAY_MARK: diversion(parse_levels(LEVELS))})
PATH = ROOT / "config" / "delayOffset.json"


@pytest.fixture(autouse=True)
def _threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


class Life:
    """A store and its delivery from one start to the next stop."""

    def __init__(
        self,
        disk: SimulatedDisk,
        clock: ManualClock,
        flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH,
        levels: str = LEVELS,
    ) -> None:
        self.disk = disk
        self.clock = clock
        settings = config(flush, message_delay_level=levels, flush_interval_commit_log=10**6)
        self.store: Store = new_store(disk, settings, clock)
        self.delivery = ScheduledDelivery(self.store, clock=clock, disk=disk)
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Life"]:
        await self.store.open()
        await self.delivery.open()
        tasks = [asyncio.create_task(service.run()) for service in (self.delivery, self.store.flusher)]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        await self.delivery.close()
        await self.store.close()

    async def send(self, body: bytes, level: int, topic: str = "orders", **properties: str) -> None:
        text = "".join(f"{name}\x01{value}\x02" for name, value in {**properties, "DELAY": level}.items())
        await self.store.put(DRAFTS.one(Message(topic, body, text.encode())))

    def delivered(self, topic: str = "orders") -> list[tuple[bytes, int]]:
        """Bodies, and how many milliseconds after the start of time each came."""
        records = all_records(self.store, topic)
        return [(decode(record).body, peek(record).store_timestamp - 1_700_000_000_000) for record in records]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_each_message_comes_when_it_is_due(clock: ManualClock, flush: FlushDiskType) -> None:
    async with Life(SimulatedDisk(), clock, flush).running() as life:
        await life.send(b"later", 2)
        await life.send(b"soon", 1)
        await clock.advance(0.25)
        await life.send(b"again", 1)
        await clock.advance(0.749)
        assert life.delivered() == []

        await clock.advance(7)

        assert life.delivered() == [(b"soon", 1000), (b"again", 1250), (b"later", 5000)]


async def test_who_waits_sleeps_and_does_not_poll(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    async with Life(SimulatedDisk(), clock).running() as life:
        deliver = life.delivery.deliver
        monkeypatch.setattr(life.delivery, "deliver", lambda level: looked.append(level) or deliver(level))
        await life.send(b"in two hours", 3)
        await clock.advance(1)
        looked.clear()

        await clock.advance(60)

        # The clock on the wall may be set, so that it is looked at each second; empty queues are not.
        assert looked == [3] * 60


async def test_what_is_due_at_once_is_written_at_once(clock: ManualClock) -> None:
    async with Life(SimulatedDisk(), clock).running() as life:
        for number in range(9):
            await life.send(b"%d" % number, 1)
        await clock.advance(0.9)
        writes = life.disk.counts["write"]

        await clock.advance(0.1)

        assert [body for body, _ in life.delivered()] == [b"%d" % number for number in range(9)]
        # They fill what is left of a file, and go on in the next: two runs, and the blank between them.
        assert life.disk.counts["write"] - writes <= 3


async def test_the_offsets_are_written_every_ten_seconds_and_at_the_end(clock: ManualClock) -> None:
    life = Life(SimulatedDisk(), clock)
    async with life.running():
        await life.send(b"one", 1)
        await clock.advance(9)
        assert life.disk.read(PATH) is None
        await clock.advance(1)
        assert b"1:1" in life.disk.content(PATH)
        await life.send(b"two", 1)
        await clock.advance(2)
        assert life.delivery.progress[1] == 2
    await life.close()

    assert b"1:2" in life.disk.content(PATH)
    async with Life(life.disk, clock).running() as again:
        await clock.advance(20)
        assert [body for body, _ in again.delivered()] == [b"one", b"two"]


async def test_a_message_without_a_unique_key_comes_again_only_if_its_offset_was_not_written(
    clock: ManualClock,
) -> None:
    life = Life(SimulatedDisk(), clock)
    async with life.running():
        await life.send(b"noted", 1)
        await clock.advance(10)
        await life.send(b"not noted", 1)
        await life.send(b"with a key", 1, UNIQ_KEY="k" * 32)
        await clock.advance(1)
        assert len(life.delivered()) == 3

    async with Life(life.disk.after_kill(), clock).running() as again:
        await clock.advance(1)

        assert [body for body, _ in again.delivered()] == [b"noted", b"not noted", b"with a key", b"not noted"]


async def test_what_came_due_while_nobody_was_there_comes_at_once(clock: ManualClock) -> None:
    life = Life(SimulatedDisk(), clock)
    async with life.running():
        await life.send(b"one", 1)
    await life.close()
    await clock.advance(100)

    async with Life(life.disk, clock).running() as again:
        await clock.advance(0)

        assert again.delivered() == [(b"one", 100_000)]


# Failures


async def test_what_could_not_be_stored_is_tried_again_after_ten_seconds(clock: ManualClock) -> None:
    async with Life(SimulatedDisk(), clock).running() as life:
        await life.send(b"one", 1)
        life.disk.fail("write", errno.ENOSPC, inside="commitlog", count=1)

        await clock.advance(10.9)
        assert life.delivered() == []

        await clock.advance(0.1)
        assert life.delivered() == [(b"one", 11_000)]


async def test_of_what_could_be_stored_in_part_only_the_rest_is_tried_again(clock: ManualClock) -> None:
    async with Life(SimulatedDisk(), clock).running() as life:
        put(life.store, draft_of_size(700))
        for number in range(8):
            await life.send(b"%d" % number * 100, 1)
        life.disk.fail("open allocate", errno.ENOSPC, inside="commitlog/00000000000000004096")
        await clock.advance(1)
        stored = len(life.delivered())
        life.disk.heal()
        await clock.advance(10)

        assert 0 < stored < 8
        assert [body[:1] for body, _ in life.delivered()] == [b"%d" % number for number in range(8)]


async def test_offsets_that_cannot_be_written_are_written_later(clock: ManualClock) -> None:
    async with Life(SimulatedDisk(), clock).running() as life:
        await life.send(b"one", 1)
        life.disk.fail("write", errno.ENOSPC, inside="config")
        await clock.advance(10)
        assert life.disk.read(PATH) is None
        life.disk.heal()

        await clock.advance(10)

        assert b"1:1" in life.disk.content(PATH)


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_an_offset_is_not_written_before_the_delivery_is_durable(
    clock: ManualClock, flush: FlushDiskType
) -> None:
    async with Life(SimulatedDisk(), clock, flush).running() as life:
        await life.send(b"one", 1)
        life.disk.fail("sync", errno.EIO, inside="commitlog")

        await clock.advance(30)

    assert life.delivery.progress[1] == 1
    await life.delivery.close()
    assert life.disk.read(PATH) is None


async def test_a_slow_disk_does_not_make_two_deliveries_of_one(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Life(SimulatedDisk(), clock, FlushDiskType.SYNC_FLUSH).running() as life:
        await life.send(b"one", 1)
        wait, asked = life.store.flusher.wait, []

        async def too_long(offset: int, *, timeout_seconds: float) -> bool:
            asked.append(offset)
            return await wait(offset, timeout_seconds=timeout_seconds) and len(asked) > 3

        monkeypatch.setattr(life.store.flusher, "wait", too_long)
        await clock.advance(20)

        assert len(asked) > 3
        assert life.delivered() == [(b"one", 1000)]


# Offsets that the queue does not have


async def test_an_offset_beyond_the_end_is_corrected_before_new_messages_come(clock: ManualClock) -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    disk.write(PATH, b'{"offsetTable":{1:5,2:3}}')
    async with Life(disk, clock).running() as life:
        assert life.delivery.progress == {1: 0, 2: 0, 3: 0}
        await life.send(b"one", 1)

        await clock.advance(1)

        assert life.delivered() == [(b"one", 1000)]


async def test_an_offset_before_the_beginning_is_corrected(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Life(SimulatedDisk(), clock).running() as life:
        for number in range(3):
            await life.send(b"%d" % number, 1)
        queue = life.store.queues.get(SCHEDULE_TOPIC, 0)
        assert queue is not None
        queue.min_offset = 2

        await clock.advance(1)

        assert [body for body, _ in life.delivered()] == [b"2"]
        assert "offset 0 is outside of 2 to 3" in caplog.text


async def test_messages_of_a_level_that_is_no_longer_configured_are_told(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    life = Life(SimulatedDisk(), clock)
    async with life.running():
        await life.send(b"one", 2)
    await life.close()

    async with Life(life.disk, clock, levels="1s").running():
        assert "messages of level 2 wait" in caplog.text


async def test_the_offsets_of_a_master_can_be_taken_over(clock: ManualClock) -> None:
    async with Life(SimulatedDisk(), clock).running() as life:
        for number in range(3):
            await life.send(b"%d" % number, 1)
        life.delivery.replace(b'{"offsetTable":{1:2}}')

        await clock.advance(1)

        assert [body for body, _ in life.delivered()] == [b"2"]


async def test_by_a_real_clock_too_nothing_comes_early() -> None:
    """And not much later, though how much depends on the machine: the bound is generous."""
    clock = SystemClock()
    store = new_store(SimulatedDisk(), config(message_delay_level="1s"), clock)
    await store.open()
    delivery = ScheduledDelivery(store, clock=clock, disk=SimulatedDisk())
    await delivery.open()
    task = asyncio.create_task(delivery.run())
    (sent,) = put(store, DRAFTS.one(Message("orders", b"one", b"DELAY\x011\x02")))

    assert await store.arrivals.wait("orders", 0, seconds=30)

    (record,) = all_records(store)
    late = peek(record).store_timestamp - sent.store_timestamp - 1000
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 0 <= late < 1000
