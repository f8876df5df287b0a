"""StalledAppends: sends that wait too long for the next file are refused and not stored later."""

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kerolox.store.config import FlushDiskType
from kerolox.store.errors import StoreBusy, StoreReadOnly, WaitedTooLong
from kerolox.store.log.commit_log import Append
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.store import Store, StoreHooks
from tests.store.disks import SimulatedDisk
from tests.store.log.test_allocator import SlowDisk, store_without_index
from tests.store.stores import all_records, config, draft_of_size, opened, put


@pytest.fixture
def disk() -> Iterator[SlowDisk]:
    disk = SlowDisk()
    yield disk
    disk.permits.release(1000)


class WaitTimeout:
    """Timeout of waiting senders, which the test may change meanwhile."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # If set, senders that arrived before this time have timed out, and later ones have not.
        self.came_before: float | None = None

    def __call__(self) -> float:
        return self.seconds if self.came_before is None else asyncio.get_running_loop().time() - self.came_before


async def stalled(disk: SlowDisk, wait_timeout: WaitTimeout) -> Store:
    """Return a store whose next file is created when the test releases a permit."""
    timeouts = [WaitTimeout(60)]
    store = store_without_index(disk, hooks=StoreHooks(append_timeout_seconds=lambda: timeouts[-1]()))
    await store.put(draft_of_size(3000))
    timeouts.append(wait_timeout)
    disk.is_slow = True
    return store


async def durable(store: Store) -> None:
    """Write and sync a first message, so that there is a file."""
    put(store, draft_of_size(100))
    await store.flusher.flush()


async def test_a_sender_that_times_out_is_refused_and_not_stored_afterwards(disk: SlowDisk) -> None:
    wait_timeout = WaitTimeout(0.02)
    store = await stalled(disk, wait_timeout)
    late = [asyncio.create_task(store.put(draft_of_size(size))) for size in (2000, 200)]

    refused = await asyncio.gather(*late, return_exceptions=True)

    assert [type(error) for error in refused] == [WaitedTooLong, WaitedTooLong]
    assert isinstance(refused[0], WaitedTooLong)
    assert (refused[0].waited_millis >= 20, refused[0].waiting) == (True, 2)
    wait_timeout.seconds = 60
    patient = asyncio.create_task(store.put(draft_of_size(1500)))
    await asyncio.sleep(0)
    disk.permits.release(10)
    appended, _ = await patient
    assert appended.queue_offset == 1
    assert [len(record) for record in all_records(store, "t")] == [3000, 1500]
    await store.close()


async def test_a_later_sender_keeps_waiting(disk: SlowDisk) -> None:
    wait_timeout = WaitTimeout(60)
    store = await stalled(disk, wait_timeout)
    first = asyncio.create_task(store.put(draft_of_size(2000)))
    await asyncio.wait([first], timeout=0.03)
    came_before = asyncio.get_running_loop().time() - 0.001
    second = asyncio.create_task(store.put(draft_of_size(2000)))
    await asyncio.sleep(0)
    wait_timeout.came_before = came_before

    with pytest.raises(WaitedTooLong):
        await first
    assert not second.done()
    disk.permits.release(10)

    assert (await second)[0].queue_offset == 1
    await store.close()


async def test_a_file_created_in_time_refuses_no_sender(disk: SlowDisk) -> None:
    store = await stalled(disk, WaitTimeout(60))
    waiting = asyncio.create_task(store.put(draft_of_size(2000)))
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

    disk.permits.release(10)

    assert (await waiting)[0].physical_offset == 4096
    await store.close()


async def test_no_more_than_the_allowed_bytes_wait_for_a_file(disk: SlowDisk) -> None:
    store = await stalled(disk, WaitTimeout(60))
    store.config.put_bytes_pending_max = 5000
    waiting = [asyncio.create_task(store.put(draft_of_size(2000))) for _ in range(2)]
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

    with pytest.raises(StoreBusy, match="4000 bytes"):
        await store.put(draft_of_size(2000))

    waiting.append(asyncio.create_task(store.put(draft_of_size(900))))
    disk.permits.release(10)
    assert [appended.queue_offset for appended, _ in await asyncio.gather(*waiting)] == [1, 2, 3]
    assert (await store.put(draft_of_size(2000)))[0].queue_offset == 4
    await store.close()


async def test_no_more_than_the_allowed_bytes_wait_for_a_sync() -> None:
    disk = SlowDisk()
    store = opened(disk, config(flush_disk_type=FlushDiskType.SYNC_FLUSH, put_bytes_pending_max=2500))
    await durable(store)
    waiting = [asyncio.create_task(store.put(draft_of_size(1000))) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    with pytest.raises(StoreBusy):
        await store.put(draft_of_size(1000))

    await store.flusher.flush()
    assert [status for _, status in await asyncio.gather(*waiting)] == [AckStatus.OK] * 2
    again = asyncio.create_task(store.put(draft_of_size(1000)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await store.flusher.flush()
    assert (await again)[0].queue_offset == 3
    await store.close()


async def test_a_message_larger_than_the_limit_waits_alone() -> None:
    store = opened(SlowDisk(), config(flush_disk_type=FlushDiskType.SYNC_FLUSH, put_bytes_pending_max=100))
    await durable(store)
    waiting = asyncio.create_task(store.put(draft_of_size(1000)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    await store.flusher.flush()

    assert (await waiting)[1] is AckStatus.OK
    await store.close()


async def test_messages_with_wait_false_count_until_they_are_durable() -> None:
    """With WAIT=false the send is acknowledged at once, but its bytes are not durable yet."""
    disk = SyncingDisk()
    store = opened(disk, config(flush_disk_type=FlushDiskType.SYNC_FLUSH, put_bytes_pending_max=2500))
    await durable(store)
    disk.is_slow = True
    flushing = asyncio.create_task(store.flusher.run())
    for _ in range(2):
        await store.put(unawaited(1000))
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

    for _ in range(3):
        with pytest.raises(StoreBusy, match="2000 bytes"):
            await store.put(unawaited(1000))

    disk.is_slow = False
    disk.permits.release()
    await store.flusher.wait(store.log.end_offset, timeout_seconds=20)
    assert (await store.put(unawaited(1000)))[0].queue_offset == 3
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)
    await store.close()


async def test_a_failed_sync_is_reported_rather_than_store_busy() -> None:
    disk = SyncingDisk()
    store = opened(disk, config(flush_disk_type=FlushDiskType.SYNC_FLUSH, put_bytes_pending_max=2500))
    await durable(store)
    for _ in range(2):
        await store.put(unawaited(1000))
    disk.fail("sync", errno.EIO, count=1)
    await store.flusher.flush()

    with pytest.raises(StoreReadOnly, match="sync has failed"):
        await store.put(unawaited(1000))

    await store.close()


def unawaited(size: int) -> Append:
    made = draft_of_size(size)
    made.is_awaited = False
    return made


class SyncingDisk(SimulatedDisk):
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
