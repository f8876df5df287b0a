"""Group commit: one sync for all who wait."""

import asyncio
import contextlib
import errno
import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kerolox.runtime.kernel_syncs import Ended
from kerolox.store.errors import StoreReadOnly
from kerolox.store.log import flusher as module
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.flusher import Flusher
from tests.store.disks import SimulatedDisk, SimulatedFile
from tests.store.stores import draft, segments


class SlowDisk(SimulatedDisk):
    """Syncs of files end when they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        self.is_slow = False

    def _change(self, kind: str, *args: object) -> None:  # type: ignore[override]
        if kind == "sync" and self.is_slow:
            self.begun.release()
            assert self.let_go.acquire(timeout=20)
        super()._change(kind, *args)  # type: ignore[arg-type]


@pytest.fixture
def disk() -> Iterator[SlowDisk]:
    disk = SlowDisk()
    yield disk
    disk.let_go.release(1000)


def new_flusher(disk: SimulatedDisk) -> tuple[CommitLog, Flusher]:
    log = CommitLog(segments(disk))
    append(log)
    return log, Flusher(log, interval_seconds=60)


def append(log: CommitLog) -> int:
    (place,) = log.append([draft()], [0], 1)
    return place.end_offset


async def started(disk: SlowDisk) -> None:
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)


async def test_a_thousand_who_wait_share_one_sync(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    before = disk.counts["sync"]
    running = asyncio.create_task(flusher.run())

    end = log.end_offset
    results = await asyncio.gather(*[flusher.wait(end, timeout_seconds=20) for _ in range(1000)])

    assert results == [True] * 1000
    assert disk.counts["sync"] - before == 1
    running.cancel()


async def test_a_sync_does_not_wait_for_what_others_do_in_threads(disk: SlowDisk) -> None:
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


async def test_those_who_come_during_a_sync_share_the_next(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    before = disk.counts["sync"]
    running = asyncio.create_task(flusher.run())
    disk.is_slow = True
    first = asyncio.create_task(flusher.wait(log.end_offset, timeout_seconds=20))
    await started(disk)

    ends = [append(log) for _ in range(20)]
    others = [asyncio.create_task(flusher.wait(end, timeout_seconds=20)) for end in ends]
    disk.let_go.release()
    assert await first
    assert not any(other.done() for other in others)
    disk.let_go.release()

    assert await asyncio.gather(*others) == [True] * 20
    assert disk.counts["sync"] - before == 2
    assert flusher.durable_offset == log.end_offset
    running.cancel()


async def test_who_waits_for_what_is_durable_does_not_wait(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    await flusher.flush()

    assert await flusher.wait(log.end_offset, timeout_seconds=0)


async def test_who_waits_too_long_is_told_so_and_the_sync_goes_on(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    running = asyncio.create_task(flusher.run())
    disk.is_slow = True

    assert not await flusher.wait(log.end_offset, timeout_seconds=0.01)
    disk.let_go.release()
    assert await flusher.wait(log.end_offset, timeout_seconds=20)

    running.cancel()


async def test_without_anybody_waiting_the_log_is_synced_after_a_while(disk: SlowDisk) -> None:
    durable = asyncio.Event()
    log = CommitLog(segments(disk))
    append(log)
    flusher = Flusher(log, interval_seconds=0.001, on_durable=durable.set)
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


async def test_a_sync_that_fails_is_the_last(disk: SlowDisk) -> None:
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
    # Another sync would succeed, and mean nothing.
    await flusher.flush()
    await flusher.close()
    assert flusher.durable_offset == 0


async def test_a_sync_that_fails_after_its_caller_was_cancelled_is_the_last_too(disk: SlowDisk) -> None:
    _, flusher = new_flusher(disk)
    disk.is_slow = True
    disk.fail("sync", errno.EIO, count=1)
    flushing = asyncio.create_task(flusher.flush())
    await started(disk)

    flushing.cancel()
    disk.let_go.release()
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
    disk.let_go.release()
    await asyncio.gather(flushing, return_exceptions=True)
    await flusher.close()

    assert flusher.durable_offset == log.end_offset


async def test_two_flushes_at_once_come_one_after_the_other(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    disk.is_slow = True
    first = asyncio.create_task(flusher.flush())
    await started(disk)
    append(log)
    second = asyncio.create_task(flusher.flush())
    await asyncio.sleep(0)

    disk.let_go.release(2)
    await asyncio.gather(first, second)

    assert flusher.durable_offset == log.end_offset


async def test_a_file_that_cannot_be_opened_is_synced_later(disk: SlowDisk) -> None:
    log, flusher = new_flusher(disk)
    log._segments._files.close()
    disk.fail("open", errno.EMFILE, count=1)

    await flusher.flush()
    assert (flusher.durable_offset, flusher.failure) == (0, None)
    await flusher.flush()

    assert flusher.durable_offset == log.end_offset


class OneByOneDisk(SimulatedDisk):
    """Each sync ends when it is let go itself; some of them fail."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.begun = threading.Semaphore(0)
        self.syncs = [threading.Event() for _ in range(3)]
        self.failing: set[int] = set()
        self._numbers = itertools.count()

    def _change(self, kind: str, *args: object) -> None:  # type: ignore[override]
        if kind == "sync" and self.is_slow:
            number = next(self._numbers)
            self.begun.release()
            assert self.syncs[number].wait(timeout=20)
            if number in self.failing:
                raise OSError(errno.EIO, "Input/output error")
        super()._change(kind, *args)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def two_syncs() -> AsyncIterator[tuple[OneByOneDisk, CommitLog, Flusher, list[asyncio.Task[bool]]]]:
    """Two senders, each with a sync of its own under way; neither has ended."""
    disk = OneByOneDisk()
    log = CommitLog(segments(disk))
    flusher = Flusher(log, interval_seconds=60, syncs_max=2)
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


async def test_a_sync_that_takes_long_has_another_beside_it() -> None:
    async with two_syncs() as (disk, log, flusher, (first, second)):
        disk.syncs[0].set()
        assert await first
        assert not second.done()
        assert flusher.durable_offset < log.end_offset

        disk.syncs[1].set()
        assert await second
        assert flusher.durable_offset == log.end_offset


async def test_no_more_syncs_are_under_way_than_allowed() -> None:
    async with two_syncs() as (disk, log, flusher, senders):
        third = asyncio.create_task(flusher.wait(append(log), timeout_seconds=20))
        disk.syncs[0].set()
        await senders[0]
        assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

        disk.syncs[1].set()
        disk.syncs[2].set()

        assert await asyncio.gather(*senders, third) == [True] * 3


async def test_a_later_sync_counts_when_those_before_it_have_ended() -> None:
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


async def test_a_later_sync_means_nothing_when_one_before_it_has_failed() -> None:
    async with two_syncs() as (disk, _, flusher, senders):
        disk.failing = {0}
        disk.syncs[1].set()
        disk.syncs[0].set()

        results = await asyncio.gather(*senders, return_exceptions=True)

        assert all(isinstance(result, StoreReadOnly) for result in results)
        assert flusher.durable_offset == 0


class ByKernel:
    """Syncs that the kernel carries out, each of which ends when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.under_way: list[tuple[SimulatedFile, Ended]] = []
        monkeypatch.setattr(SimulatedFile, "begin_sync", lambda file, syncs, ended: self.begin(file, ended))
        monkeypatch.setattr(module, "KernelSyncs", lambda loop: self)

    def begin(self, file: SimulatedFile, ended: Ended) -> bool:
        self.under_way.append((file, ended))
        return True

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.under_way) < count:
                await asyncio.sleep(0)

    def end(self, number: int, error: OSError | None = None) -> None:
        file, ended = self.under_way[number]
        if error is None:
            file.sync()
        ended(error)

    def close(self) -> None:
        pass


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> ByKernel:
    return ByKernel(monkeypatch)


@contextlib.asynccontextmanager
async def by_kernel(kernel: ByKernel) -> AsyncIterator[tuple[CommitLog, Flusher, list[asyncio.Task[bool]]]]:
    """Two senders, each with a sync of its own under way in the kernel."""
    log = CommitLog(segments(SimulatedDisk()))
    flusher = Flusher(log, interval_seconds=60, syncs_max=2)
    # The first syncs the new file's directory, too, and needs a thread.
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


async def test_the_kernel_syncs_where_it_can_and_ends_count_in_order(kernel: ByKernel) -> None:
    async with by_kernel(kernel) as (log, flusher, senders):
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


async def test_a_sync_of_the_kernel_that_fails_is_the_last(kernel: ByKernel) -> None:
    async with by_kernel(kernel) as (log, flusher, senders):
        kernel.end(1)
        kernel.end(0, OSError(errno.EIO, "Input/output error"))

        results = await asyncio.gather(*senders, return_exceptions=True)

        assert all(isinstance(result, StoreReadOnly) for result in results)
        assert flusher.durable_offset < log.end_offset
        with pytest.raises(StoreReadOnly):
            await flusher.wait(log.end_offset, timeout_seconds=1)


async def test_whoever_closes_waits_for_what_the_kernel_does(kernel: ByKernel) -> None:
    async with by_kernel(kernel) as (log, flusher, senders):
        closing = asyncio.create_task(flusher.close())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not closing.done()

        kernel.end(0)
        kernel.end(1)
        await closing

        assert await asyncio.gather(*senders) == [True, True]
        assert flusher.durable_offset == log.end_offset


async def test_where_the_kernel_offers_nothing_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def refuse(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal asked
        asked += 1
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(module, "KernelSyncs", refuse)
    log = CommitLog(segments(SimulatedDisk()))
    flusher = Flusher(log, interval_seconds=60)
    running = asyncio.create_task(flusher.run())

    for _ in range(3):
        assert await flusher.wait(append(log), timeout_seconds=20)

    assert asked == 1
    running.cancel()
    await flusher.close()


class Counting(Flusher):
    """Counts how often it was asked whether there is enough to be synced."""

    intervals = 0

    @property
    def _is_little(self) -> bool:
        self.intervals += 1
        return super()._is_little


async def test_a_little_waits_for_more_intervals_and_is_synced_then(disk: SlowDisk) -> None:
    durable = asyncio.Event()
    log = CommitLog(segments(disk))
    append(log)
    flusher = Counting(
        log, interval_seconds=0.001, thorough_seconds=0.005, unsynced_size_min=4096, on_durable=durable.set
    )
    running = asyncio.create_task(flusher.run())

    async with asyncio.timeout(20):
        await durable.wait()

    assert flusher.intervals == 5
    assert flusher.durable_offset == log.end_offset
    running.cancel()


async def test_a_little_for_which_somebody_waits_is_synced_at_once(disk: SlowDisk) -> None:
    log = CommitLog(segments(disk))
    append(log)
    flusher = Counting(log, interval_seconds=60, thorough_seconds=600, unsynced_size_min=4096)
    running = asyncio.create_task(flusher.run())

    assert await flusher.wait(log.end_offset, timeout_seconds=20)

    assert flusher.intervals == 0
    running.cancel()


async def test_enough_does_not_wait(disk: SlowDisk) -> None:
    durable = asyncio.Event()
    log = CommitLog(segments(disk))
    flusher = Counting(log, interval_seconds=0.001, thorough_seconds=600, unsynced_size_min=300, on_durable=durable.set)
    for _ in range(3):
        append(log)
    running = asyncio.create_task(flusher.run())

    async with asyncio.timeout(20):
        await durable.wait()

    assert flusher.intervals == 1
    running.cancel()
