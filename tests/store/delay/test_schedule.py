"""Delayed messages are delivered on time, in order and once."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator

import pytest

from kerolox.message.message import Message
from kerolox.message.records.record import decode
from kerolox.message.records.summary import peek
from kerolox.runtime.clock import ManualClock, SystemClock
from kerolox.store.config import FlushDiskType
from kerolox.store.delay.delay_levels import DELAY_MARK, SCHEDULE_TOPIC, diversion, parse_levels
from kerolox.store.delay.schedule import ScheduledDelivery
from kerolox.store.message_encoder import MessageEncoder
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT, all_records, config, draft_of_size, new_store, put, without_threads

LEVELS = "1s 5s 2h"
ENCODER = MessageEncoder({DELAY_MARK: diversion(parse_levels(LEVELS))})
PATH = ROOT / "config" / "delayOffset.json"


@pytest.fixture(autouse=True)
def _threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


class RunningDelivery:
    """A store and its delivery from start to stop."""

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
    async def running(self) -> AsyncIterator["RunningDelivery"]:
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
        await self.store.put(ENCODER.encode(Message(topic, body, text.encode())))

    def delivered(self, topic: str = "orders") -> list[tuple[bytes, int]]:
        """Return bodies with their delivery times in milliseconds since the start."""
        records = all_records(self.store, topic)
        return [(decode(record).body, peek(record).store_timestamp - 1_700_000_000_000) for record in records]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_each_message_is_delivered_when_it_is_due(clock: ManualClock, flush: FlushDiskType) -> None:
    async with RunningDelivery(SimulatedDisk(), clock, flush).running() as running:
        await running.send(b"later", 2)
        await running.send(b"soon", 1)
        await clock.advance(0.25)
        await running.send(b"again", 1)
        await clock.advance(0.749)
        assert running.delivered() == []

        await clock.advance(7)

        assert running.delivered() == [(b"soon", 1000), (b"again", 1250), (b"later", 5000)]


async def test_levels_sleep_until_the_next_message_is_due(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    async with RunningDelivery(SimulatedDisk(), clock).running() as running:
        deliver = running.delivery.deliver

        def recorded_deliver(level: int) -> float | None:
            looked.append(level)
            return deliver(level)

        monkeypatch.setattr(running.delivery, "deliver", recorded_deliver)
        await running.send(b"in two hours", 3)
        await clock.advance(1)
        looked.clear()

        await clock.advance(60)

        # The wall clock may be set, so it is checked every second; empty queues are not.
        assert looked == [3] * 60


async def test_messages_due_together_are_written_together(clock: ManualClock) -> None:
    async with RunningDelivery(SimulatedDisk(), clock).running() as running:
        for number in range(9):
            await running.send(b"%d" % number, 1)
        await clock.advance(0.9)
        writes = running.disk.counts["write"]

        await clock.advance(0.1)

        assert [body for body, _ in running.delivered()] == [b"%d" % number for number in range(9)]
        # They fill the rest of a file and continue in the next: two writes, and a blank between them.
        assert running.disk.counts["write"] - writes <= 3


async def test_offsets_are_saved_every_ten_seconds_and_on_close(clock: ManualClock) -> None:
    running = RunningDelivery(SimulatedDisk(), clock)
    async with running.running():
        await running.send(b"one", 1)
        await clock.advance(9)
        assert running.disk.read(PATH) is None
        await clock.advance(1)
        assert b"1:1" in running.disk.content(PATH)
        await running.send(b"two", 1)
        await clock.advance(2)
        assert running.delivery.progress[1] == 2
    await running.close()

    assert b"1:2" in running.disk.content(PATH)
    async with RunningDelivery(running.disk, clock).running() as again:
        await clock.advance(20)
        assert [body for body, _ in again.delivered()] == [b"one", b"two"]


async def test_only_messages_without_a_key_and_a_saved_offset_are_delivered_twice(
    clock: ManualClock,
) -> None:
    running = RunningDelivery(SimulatedDisk(), clock)
    async with running.running():
        await running.send(b"saved", 1)
        await clock.advance(10)
        await running.send(b"not saved", 1)
        await running.send(b"with a key", 1, UNIQ_KEY="k" * 32)
        await clock.advance(1)
        assert len(running.delivered()) == 3

    async with RunningDelivery(running.disk.after_kill(), clock).running() as again:
        await clock.advance(1)

        assert [body for body, _ in again.delivered()] == [b"saved", b"not saved", b"with a key", b"not saved"]


async def test_messages_that_became_due_while_stopped_are_delivered_at_once(clock: ManualClock) -> None:
    running = RunningDelivery(SimulatedDisk(), clock)
    async with running.running():
        await running.send(b"one", 1)
    await running.close()
    await clock.advance(100)

    async with RunningDelivery(running.disk, clock).running() as again:
        await clock.advance(0)

        assert again.delivered() == [(b"one", 100_000)]


# Failures


async def test_a_failed_delivery_is_retried_after_ten_seconds(clock: ManualClock) -> None:
    async with RunningDelivery(SimulatedDisk(), clock).running() as running:
        await running.send(b"one", 1)
        running.disk.fail("write", errno.ENOSPC, inside="commitlog", count=1)

        await clock.advance(10.9)
        assert running.delivered() == []

        await clock.advance(0.1)
        assert running.delivered() == [(b"one", 11_000)]


async def test_after_a_partial_delivery_only_the_rest_is_retried(clock: ManualClock) -> None:
    async with RunningDelivery(SimulatedDisk(), clock).running() as running:
        put(running.store, draft_of_size(700))
        for number in range(8):
            await running.send(b"%d" % number * 100, 1)
        running.disk.fail("open allocate", errno.ENOSPC, inside="commitlog/00000000000000004096")
        await clock.advance(1)
        stored = len(running.delivered())
        running.disk.heal()
        await clock.advance(10)

        assert 0 < stored < 8
        assert [body[:1] for body, _ in running.delivered()] == [b"%d" % number for number in range(8)]


async def test_offsets_that_cannot_be_saved_are_saved_later(clock: ManualClock) -> None:
    async with RunningDelivery(SimulatedDisk(), clock).running() as running:
        await running.send(b"one", 1)
        running.disk.fail("write", errno.ENOSPC, inside="config")
        await clock.advance(10)
        assert running.disk.read(PATH) is None
        running.disk.heal()

        await clock.advance(10)

        assert b"1:1" in running.disk.content(PATH)


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_an_offset_is_not_saved_before_the_delivery_is_durable(clock: ManualClock, flush: FlushDiskType) -> None:
    async with RunningDelivery(SimulatedDisk(), clock, flush).running() as running:
        await running.send(b"one", 1)
        running.disk.fail("sync", errno.EIO, inside="commitlog")

        await clock.advance(30)

    assert running.delivery.progress[1] == 1
    await running.delivery.close()
    assert running.disk.read(PATH) is None


async def test_a_slow_disk_does_not_deliver_twice(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with RunningDelivery(SimulatedDisk(), clock, FlushDiskType.SYNC_FLUSH).running() as running:
        await running.send(b"one", 1)
        wait, asked = running.store.flusher.wait, []

        async def too_long(offset: int, *, timeout_seconds: float) -> bool:
            asked.append(offset)
            return await wait(offset, timeout_seconds=timeout_seconds) and len(asked) > 3

        monkeypatch.setattr(running.store.flusher, "wait", too_long)
        await clock.advance(20)

        assert len(asked) > 3
        assert running.delivered() == [(b"one", 1000)]


# Offsets outside of the queue


async def test_an_offset_beyond_the_end_is_corrected_before_new_messages_come(clock: ManualClock) -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    disk.write(PATH, b'{"offsetTable":{1:5,2:3}}')
    async with RunningDelivery(disk, clock).running() as running:
        assert running.delivery.progress == {1: 0, 2: 0, 3: 0}
        await running.send(b"one", 1)

        await clock.advance(1)

        assert running.delivered() == [(b"one", 1000)]


async def test_an_offset_before_the_beginning_is_corrected(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with RunningDelivery(SimulatedDisk(), clock).running() as running:
        for number in range(3):
            await running.send(b"%d" % number, 1)
        queue = running.store.queues.get(SCHEDULE_TOPIC, 0)
        assert queue is not None
        queue.min_offset = 2

        await clock.advance(1)

        assert [body for body, _ in running.delivered()] == [b"2"]
        assert "offset 0 is not in 2 to 3" in caplog.text


async def test_messages_of_an_undefined_level_are_logged(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    running = RunningDelivery(SimulatedDisk(), clock)
    async with running.running():
        await running.send(b"one", 2)
    await running.close()

    async with RunningDelivery(running.disk, clock, levels="1s").running():
        assert "delay level 2 has messages" in caplog.text


async def test_the_offsets_of_a_master_can_be_loaded(clock: ManualClock) -> None:
    async with RunningDelivery(SimulatedDisk(), clock).running() as running:
        for number in range(3):
            await running.send(b"%d" % number, 1)
        running.delivery.replace(b'{"offsetTable":{1:2}}')

        await clock.advance(1)

        assert [body for body, _ in running.delivered()] == [b"2"]


async def test_nothing_is_early_by_the_real_clock() -> None:
    """Nor very late; the bound is generous, since it depends on the machine."""
    clock = SystemClock()
    store = new_store(SimulatedDisk(), config(message_delay_level="1s"), clock)
    await store.open()
    delivery = ScheduledDelivery(store, clock=clock, disk=SimulatedDisk())
    await delivery.open()
    task = asyncio.create_task(delivery.run())
    (sent,) = put(store, ENCODER.encode(Message("orders", b"one", b"DELAY\x011\x02")))

    assert await store.message_waiters.wait("orders", 0, seconds=30)

    (record,) = all_records(store)
    late = peek(record).store_timestamp - sent.store_timestamp - 1000
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 0 <= late < 1000


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("seconds", [60, 3600, 10 * 365 * 86_400])
async def test_levels_continue_after_the_clock_was_ahead(seconds: int, is_restarted: bool) -> None:
    clock, disk = ManualClock(), SimulatedDisk()
    async with RunningDelivery(disk, clock).running() as running:
        await running.send(b"before", 1)
        clock.step(seconds)
        await clock.advance(2)
        await running.send(b"while ahead", 2)
        await clock.advance(2)
        clock.step(-seconds)
        if not is_restarted:
            await _assert_new_message_is_on_time(running)
    if is_restarted:
        await running.close()
        async with RunningDelivery(disk, clock).running() as running:
            await _assert_new_message_is_on_time(running)


@pytest.mark.parametrize("seconds", [60, 3600, 10 * 365 * 86_400])
async def test_levels_continue_after_the_clock_was_set_back(seconds: int) -> None:
    clock = ManualClock()
    async with RunningDelivery(SimulatedDisk(), clock).running() as running:
        await running.send(b"before", 1)
        await clock.advance(2)
        await running.send(b"while ahead", 2)
        clock.step(-seconds)
        await _assert_new_message_is_on_time(running)


async def _assert_new_message_is_on_time(running: RunningDelivery) -> None:
    """A message sent by the current clock is delivered after its delay, and earlier ones are not blocked."""
    await running.clock.advance(2)
    await running.send(b"after", 2)
    await running.clock.advance(4)
    assert b"after" not in [body for body, _ in running.delivered()]
    await running.clock.advance(3)
    assert sorted(body for body, _ in running.delivered()) == [b"after", b"before", b"while ahead"]
