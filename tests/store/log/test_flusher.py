"""Flusher: group commit, overlapping syncs and failures."""

import asyncio
import contextlib
import errno
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kerolox.runtime.aio_fsync import SyncCallback
from kerolox.store.errors import StoreReadOnly
from kerolox.store.log import flusher as module
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.flusher import Flusher, FlushPolicy
from tests.store.disks import SimulatedDisk, SimulatedFile
from tests.store.stores import draft, segments


class SlowDisk(SimulatedDisk):
    """While slow, each sync waits for a permit."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.permits = threading.Semaphore(0)
        self.is_slow = False

    def _change(self, kind: str, path: Path, halfway: Callable[[], None] = lambda: None) -> None:
        if kind == "sync" and self.is_slow:
            self.begun.release()
            assert self.permits.acquire(timeout=20)
        super()._change(kind, path, halfway)


@pytest.fixture
def disk() -> Iterator[SlowDisk]:
    disk = SlowDisk()
    yield disk
    disk.permits.release(1000)


def new_flusher(disk: SimulatedDisk) -> tuple[CommitLog, Flusher]:
    log = CommitLog(segments(disk))
    append(log)
    return log, Flusher(log, FlushPolicy(interval_seconds=60))


def append(log: CommitLog) -> int:
    (appended,) = log.append([draft()], [0], 1)
    return appended.end_offset


async def started(disk: SlowDisk) -> None:
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)


async def test_a_thousand_waiters_share_one_sync(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    before = disk.counts["sync"]
    running = asyncio.create_task(flusher.run())

    end = log.end_offset
    results = await asyncio.gather(*[flusher.wait(end, timeout_seconds=20) for _ in range(1000)])

    assert results == [True] * 1000
    assert disk.counts["sync"] - before == 1
    running.cancel()


async def test_a_sync_does_not_wait_for_the_default_executor(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    may_end = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    others = asyncio.create_task(asyncio.to_thread(may_end.wait, 20))
    try:
        async with asyncio.timeout(10):
            await flusher.flush()
        assert flusher.durable_offset == log.end_offset
    finally:
        may_end.set()
        await others
    await flusher.close()


async def test_waiters_that_arrive_during_a_sync_share_the_next_one(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    before = disk.counts["sync"]
    running = asyncio.create_task(flusher.run())
    disk.is_slow = True
    first = asyncio.create_task(flusher.wait(log.end_offset, timeout_seconds=20))
    await started(disk)

    ends = [append(log) for _ in range(20)]
    others = [asyncio.create_task(flusher.wait(end, timeout_seconds=20)) for end in ends]
    disk.permits.release()
    assert await first
    assert not any(other.done() for other in others)
    disk.permits.release()

    assert await asyncio.gather(*others) == [True] * 20
    assert disk.counts["sync"] - before == 2
    assert flusher.durable_offset == log.end_offset
    running.cancel()


async def test_waiting_for_a_durable_offset_returns_at_once(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    await flusher.flush()

    assert await flusher.wait(log.end_offset, timeout_seconds=0)


async def test_a_wait_that_times_out_returns_false_and_the_sync_continues(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    running = asyncio.create_task(flusher.run())
    disk.is_slow = True

    assert not await flusher.wait(log.end_offset, timeout_seconds=0.01)
    disk.permits.release()
    assert await flusher.wait(log.end_offset, timeout_seconds=20)

    running.cancel()


async def test_without_waiters_the_log_is_synced_after_the_interval(disk: SlowDisk) -> None:
    durable = asyncio.Event()
    log = CommitLog(segments(disk))
    append(log)
    flusher = Flusher(log, FlushPolicy(interval_seconds=0.001), on_durable=durable.set)
    running = asyncio.create_task(flusher.run())

    async with asyncio.timeout(20):
        await durable.wait()

    assert flusher.durable_offset == log.end_offset
    running.cancel()


async def test_nothing_is_synced_twice(disk: SlowDisk) -> None:
    _, flusher = new_flusher(disk)
    await flusher.flush()
    before = disk.counts["sync"]

    await flusher.flush()

    assert disk.counts["sync"] == before


async def test_no_sync_follows_a_failed_one(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    running = asyncio.create_task(flusher.run())
    disk.fail("sync", errno.EIO, count=1)

    waiting = [flusher.wait(log.end_offset, timeout_seconds=20) for _ in range(10)]
    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert all(isinstance(result, StoreReadOnly) for result in results)
    assert flusher.durable_offset == 0
    await running
    with pytest.raises(StoreReadOnly, match="Input/output error"):
        await flusher.wait(log.end_offset, timeout_seconds=20)
    # Another sync would succeed without proving anything.
    await flusher.flush()
    await flusher.close()
    assert flusher.durable_offset == 0


async def test_a_sync_that_fails_after_its_caller_was_cancelled_is_final(disk: SlowDisk) -> None:
    _, flusher = new_flusher(disk)
    disk.is_slow = True
    disk.fail("sync", errno.EIO, count=1)
    flushing = asyncio.create_task(flusher.flush())
    await started(disk)

    flushing.cancel()
    disk.permits.release()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    await flusher.close()

    assert flusher.failure is not None
    assert flusher.durable_offset == 0


async def test_a_sync_that_ends_after_its_caller_was_cancelled_counts(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    disk.is_slow = True
    flushing = asyncio.create_task(flusher.flush())
    await started(disk)

    flushing.cancel()
    disk.permits.release()
    await asyncio.gather(flushing, return_exceptions=True)
    await flusher.close()

    assert flusher.durable_offset == log.end_offset


async def test_concurrent_flushes_run_one_after_the_other(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    disk.is_slow = True
    first = asyncio.create_task(flusher.flush())
    await started(disk)
    append(log)
    second = asyncio.create_task(flusher.flush())
    await asyncio.sleep(0)

    disk.permits.release(2)
    await asyncio.gather(first, second)

    assert flusher.durable_offset == log.end_offset


async def test_a_sync_is_retried_if_the_file_could_not_be_opened(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    log._segments._files.close()
    disk.fail("open", errno.EMFILE, count=1)

    await flusher.flush()
    assert (flusher.durable_offset, flusher.failure) == (0, None)
    await flusher.flush()

    assert flusher.durable_offset == log.end_offset


class OneByOneDisk(SimulatedDisk):
    """While slow, each sync waits for its own event; those in `failing` fail."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.begun = threading.Semaphore(0)
        self.syncs = [threading.Event() for _ in range(3)]
        self.failing: set[int] = set()
        self._numbers = itertools.count()

    def _change(self, kind: str, path: Path, halfway: Callable[[], None] = lambda: None) -> None:
        if kind == "sync" and self.is_slow:
            number = next(self._numbers)
            self.begun.release()
            assert self.syncs[number].wait(timeout=20)
            if number in self.failing:
                raise OSError(errno.EIO, "Input/output error")
        super()._change(kind, path, halfway)


@contextlib.asynccontextmanager
async def two_syncs() -> AsyncIterator[tuple[OneByOneDisk, CommitLog, Flusher, list[asyncio.Task[bool]]]]:
    """Two senders, each with its own unfinished sync."""
    disk = OneByOneDisk()
    log = CommitLog(segments(disk))
    flusher = Flusher(log, FlushPolicy(interval_seconds=60, syncs_max=2))
    running = asyncio.create_task(flusher.run())
    append(log)
    disk.is_slow = True
    senders = []
    for _ in range(2):
        senders.append(asyncio.create_task(flusher.wait(append(log), timeout_seconds=20)))
        assert await asyncio.to_thread(disk.begun.acquire, timeout=20)
    try:
        yield disk, log, flusher, senders
    finally:
        for sync in disk.syncs:
            sync.set()
        running.cancel()
        await flusher.close()


async def test_a_second_sync_overlaps_a_slow_one() -> None:
    async with two_syncs() as (disk, log, flusher, (first, second)):
        disk.syncs[0].set()
        assert await first
        assert not second.done()
        assert flusher.durable_offset < log.end_offset

        disk.syncs[1].set()
        assert await second
        assert flusher.durable_offset == log.end_offset


async def test_no_more_than_syncs_max_syncs_overlap() -> None:
    async with two_syncs() as (disk, log, flusher, senders):
        third = asyncio.create_task(flusher.wait(append(log), timeout_seconds=20))
        disk.syncs[0].set()
        await senders[0]
        assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

        disk.syncs[1].set()
        disk.syncs[2].set()

        assert await asyncio.gather(*senders, third) == [True] * 3


async def test_a_later_sync_counts_only_after_the_earlier_ones_have_ended() -> None:
    async with two_syncs() as (disk, log, flusher, senders):
        before = disk.counts["sync"]
        disk.syncs[1].set()
        while disk.counts["sync"] == before:
            await asyncio.sleep(0)
        await asyncio.gather(*[asyncio.sleep(0) for _ in range(10)])
        assert flusher.durable_offset == 0

        disk.syncs[0].set()

        assert await asyncio.gather(*senders) == [True, True]
        assert flusher.durable_offset == log.end_offset


async def test_a_later_sync_does_not_count_if_an_earlier_one_failed() -> None:
    async with two_syncs() as (disk, _, flusher, senders):
        disk.failing = {0}
        disk.syncs[1].set()
        disk.syncs[0].set()

        results = await asyncio.gather(*senders, return_exceptions=True)

        assert all(isinstance(result, StoreReadOnly) for result in results)
        assert flusher.durable_offset == 0


class FakeAioFsync:
    """Stands in for AioFsync; each sync ends when the test calls `end`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_flight: list[tuple[SimulatedFile, SyncCallback]] = []
        monkeypatch.setattr(SimulatedFile, "begin_sync", lambda file, syncs, ended: self.begin(file, ended))
        monkeypatch.setattr(module, "AioFsync", lambda loop: self)

    def begin(self, file: SimulatedFile, ended: SyncCallback) -> bool:
        self.in_flight.append((file, ended))
        return True

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.in_flight) < count:
                await asyncio.sleep(0)

    def end(self, number: int, error: OSError | None = None) -> None:
        file, ended = self.in_flight[number]
        if error is None:
            file.sync()
        ended(error)

    def close(self) -> None:
        pass


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeAioFsync:
    return FakeAioFsync(monkeypatch)


@contextlib.asynccontextmanager
async def two_kernel_syncs(kernel: FakeAioFsync) -> AsyncIterator[tuple[CommitLog, Flusher, list[asyncio.Task[bool]]]]:
    """Two senders, each with its own unfinished sync in the kernel."""
    log = CommitLog(segments(SimulatedDisk()))
    flusher = Flusher(log, FlushPolicy(interval_seconds=60, syncs_max=2))
    # The first sync includes the directory of the new file and needs a thread.
    append(log)
    await flusher.flush()
    running = asyncio.create_task(flusher.run())
    senders = []
    for number in range(2):
        senders.append(asyncio.create_task(flusher.wait(append(log), timeout_seconds=20)))
        await kernel.until(number + 1)
    try:
        yield log, flusher, senders
    finally:
        running.cancel()
        await flusher.close()


async def test_syncs_in_the_kernel_count_in_the_order_in_which_they_began(kernel: FakeAioFsync) -> None:
    async with two_kernel_syncs(kernel) as (log, flusher, senders):
        before = flusher.durable_offset
        third = asyncio.create_task(flusher.wait(append(log), timeout_seconds=20))
        kernel.end(1)
        await asyncio.sleep(0)
        assert flusher.durable_offset == before

        kernel.end(0)
        assert await asyncio.gather(*senders) == [True, True]
        assert not third.done()
        await kernel.until(3)
        kernel.end(2)

        assert await third
        assert flusher.durable_offset == log.end_offset


async def test_no_sync_follows_a_failed_one_in_the_kernel(kernel: FakeAioFsync) -> None:
    async with two_kernel_syncs(kernel) as (log, flusher, senders):
        kernel.end(1)
        kernel.end(0, OSError(errno.EIO, "Input/output error"))

        results = await asyncio.gather(*senders, return_exceptions=True)

        assert all(isinstance(result, StoreReadOnly) for result in results)
        assert flusher.durable_offset < log.end_offset
        with pytest.raises(StoreReadOnly):
            await flusher.wait(log.end_offset, timeout_seconds=1)


async def test_close_waits_for_syncs_in_the_kernel(kernel: FakeAioFsync) -> None:
    async with two_kernel_syncs(kernel) as (log, flusher, senders):
        closing = asyncio.create_task(flusher.close())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not closing.done()

        kernel.end(0)
        kernel.end(1)
        await closing

        assert await asyncio.gather(*senders) == [True, True]
        assert flusher.durable_offset == log.end_offset


async def test_without_kernel_support_threads_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def refuse(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal asked
        asked += 1
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(module, "AioFsync", refuse)
    log = CommitLog(segments(SimulatedDisk()))
    flusher = Flusher(log, FlushPolicy(interval_seconds=60))
    running = asyncio.create_task(flusher.run())

    for _ in range(3):
        assert await flusher.wait(append(log), timeout_seconds=20)

    assert asked == 1
    running.cancel()
    await flusher.close()


class Counting(Flusher):
    """Counts the checks for enough unsynced bytes, one per interval."""

    intervals = 0

    @property
    def _has_little_unsynced(self) -> bool:
        self.intervals += 1
        return super()._has_little_unsynced


async def test_less_than_unsynced_size_min_is_synced_after_the_thorough_interval(disk: SlowDisk) -> None:
    durable = asyncio.Event()
    log = CommitLog(segments(disk))
    append(log)
    policy = FlushPolicy(interval_seconds=0.001, thorough_seconds=0.005, unsynced_size_min=4096)
    flusher = Counting(log, policy, on_durable=durable.set)
    running = asyncio.create_task(flusher.run())

    async with asyncio.timeout(20):
        await durable.wait()

    assert flusher.intervals == 5
    assert flusher.durable_offset == log.end_offset
    running.cancel()


async def test_less_than_unsynced_size_min_is_synced_at_once_for_a_waiter(disk: SlowDisk) -> None:
    log = CommitLog(segments(disk))
    append(log)
    flusher = Counting(log, FlushPolicy(interval_seconds=60, thorough_seconds=600, unsynced_size_min=4096))
    running = asyncio.create_task(flusher.run())

    assert await flusher.wait(log.end_offset, timeout_seconds=20)

    assert flusher.intervals == 0
    running.cancel()


async def test_enough_unsynced_bytes_are_synced_after_one_interval(disk: SlowDisk) -> None:
    durable = asyncio.Event()
    log = CommitLog(segments(disk))
    flusher = Counting(
        log, FlushPolicy(interval_seconds=0.001, thorough_seconds=600, unsynced_size_min=300), on_durable=durable.set
    )
    for _ in range(3):
        append(log)
    running = asyncio.create_task(flusher.run())

    async with asyncio.timeout(20):
        await durable.wait()

    assert flusher.intervals == 1
    running.cancel()
