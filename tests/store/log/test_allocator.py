"""FileAllocator: the next file is created in advance; if it is late, only senders that need it wait."""

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kerolox.runtime.clock import ManualClock
from kerolox.store.errors import StoreFull, StoreReadOnly
from kerolox.store.store import Store, StoreHooks
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import LOG, all_records, config, draft_of_size, new_store, opened, put, run, without_threads


class SlowDisk(SimulatedDisk):
    """While slow, each allocation waits for a permit; counts allocations on the event loop's thread."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.permits = threading.Semaphore(0)
        self.is_slow = False
        self.on_loop = 0
        self._thread = threading.get_ident()

    def _change(self, kind: str, path: Path, halfway: Callable[[], None] = lambda: None) -> None:
        if kind == "allocate":
            self.on_loop += threading.get_ident() == self._thread
            if self.is_slow:
                self.begun.release()
                assert self.permits.acquire(timeout=20)
        super()._change(kind, path, halfway)


@pytest.fixture
def disk() -> Iterator[SlowDisk]:
    disk = SlowDisk()
    yield disk
    disk.permits.release(1000)


def name(number: int) -> str:
    return f"{number * 4096:020d}"


def store_without_index(
    disk: SimulatedDisk, clock: ManualClock | None = None, hooks: StoreHooks | None = None
) -> Store:
    return opened(disk, config(message_index_enable=False), clock, hooks)


async def test_the_next_file_is_created_when_half_of_the_last_is_full(disk: SlowDisk) -> None:
    store = store_without_index(disk)
    await store.put(draft_of_size(2000))
    await store.put(draft_of_size(100))
    assert disk.names(LOG) == [name(0)]

    await store.put(draft_of_size(100))
    await store.allocator.close()

    assert disk.names(LOG) == [name(0), name(1)]
    assert not store.allocator.is_due
    await store.put(draft_of_size(3000))
    assert disk.on_loop == 0
    await store.close()


async def test_synchronous_appends_start_creating_the_next_file_early(disk: SlowDisk) -> None:
    store = store_without_index(disk)
    assert await store.allocator.prepare() is None
    put(store, draft_of_size(2000))
    await store.allocator.close()
    assert disk.names(LOG) == [name(0)]

    put(store, draft_of_size(100))
    await store.allocator.close()

    assert disk.names(LOG) == [name(0), name(1)]
    put(store, draft_of_size(3000))
    assert disk.on_loop == 0
    await store.close()


async def test_senders_wait_for_an_unfinished_file_and_keep_their_order(disk: SlowDisk) -> None:
    store = store_without_index(disk)
    await store.put(draft_of_size(3000))
    disk.is_slow = True
    waiting = [asyncio.create_task(store.put(draft_of_size(2000)))]
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

    waiting += [asyncio.create_task(store.put(draft_of_size(size))) for size in (200, 300)]
    await asyncio.sleep(0)
    assert len(store.reader.get("t", 0, 0).records) == 1
    assert not any(task.done() for task in waiting)
    disk.permits.release()
    results = await asyncio.gather(*waiting)

    assert [appended.physical_offset for appended, _ in results] == [4096, 6096, 6296]
    assert disk.on_loop == 0
    disk.is_slow = False
    await store.close()


async def test_a_synchronous_append_waits_for_the_file_being_created(disk: SlowDisk) -> None:
    store = store_without_index(disk)
    put(store, draft_of_size(3000))
    on_loop = disk.on_loop
    disk.is_slow = True
    preparing = asyncio.create_task(store.allocator.prepare())
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

    threading.Thread(target=disk.permits.release).start()
    put(store, draft_of_size(2000))

    assert await preparing is None
    assert disk.on_loop == on_loop
    assert disk.names(LOG) == [name(0), name(1)]
    assert len(all_records(store, "t")) == 2
    disk.is_slow = False
    await store.close()


async def test_a_full_disk_has_no_effect_before_the_next_file_is_needed(disk: SlowDisk) -> None:
    clock = ManualClock()
    store = store_without_index(disk, clock)
    await store.put(draft_of_size(3000))
    disk.fail("allocate", errno.ENOSPC)

    for _ in range(5):
        await store.put(draft_of_size(100))
        await store.allocator.close()
    # One attempt failed, and the next waits for the retry interval.
    assert disk.counts["allocate"] == 2
    with pytest.raises(StoreFull, match="No space left"):
        await store.put(draft_of_size(2000))
    await clock.advance(10)
    disk.heal()
    await store.put(draft_of_size(100))
    await store.allocator.close()

    assert disk.names(LOG) == [name(0), name(1)]
    assert disk.on_loop == 0
    await store.close()


async def test_on_a_full_disk_appends_that_fit_are_accepted_and_later_ones_refused(disk: SlowDisk) -> None:
    store = store_without_index(disk)
    await store.put(draft_of_size(3000))
    disk.fail("allocate", errno.ENOSPC)

    results = await asyncio.gather(
        *[store.put(draft_of_size(size)) for size in (500, 2000, 200)], return_exceptions=True
    )

    assert [isinstance(result, StoreFull) for result in results] == [False, True, True]
    assert disk.on_loop == 0
    disk.heal()
    appended, _ = await store.put(draft_of_size(2000))
    assert (appended.physical_offset, appended.queue_offset) == (4096, 2)
    await store.close()


async def test_without_descriptors_files_are_closed_to_create_the_next(disk: SlowDisk) -> None:
    store = store_without_index(disk)
    await store.put(draft_of_size(3000))
    disk.fail("open", errno.EMFILE, inside=name(1), count=1)

    appended, _ = await store.put(draft_of_size(2000))

    assert appended.physical_offset == 4096
    assert len(all_records(store, "t")) == 2
    await store.close()


async def test_a_failed_sync_of_the_next_file_makes_the_store_read_only(disk: SlowDisk) -> None:
    store = store_without_index(disk)
    await store.put(draft_of_size(2500))
    disk.fail("sync", errno.EIO, inside=name(1), count=1)

    await store.put(draft_of_size(100))
    await store.allocator.close()

    with pytest.raises(StoreReadOnly, match="sync has failed"):
        await store.put(draft_of_size(100))
    assert len(all_records(store, "t")) == 2
    await store.close()


async def test_closing_the_store_refuses_senders_that_wait_for_a_file(disk: SlowDisk) -> None:
    store = store_without_index(disk)
    await store.put(draft_of_size(3000))
    disk.is_slow = True
    waiting = asyncio.create_task(store.put(draft_of_size(2000)))
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    disk.permits.release()
    await closing

    with pytest.raises(StoreReadOnly, match="not open"):
        await waiting
    assert disk.open_count == 0


async def test_a_preallocated_file_is_used_after_the_next_start(disk: SlowDisk) -> None:
    store = store_without_index(disk)
    await store.put(draft_of_size(3000))
    assert await store.allocator.prepare() is None
    await store.close()

    again = store_without_index(disk)

    assert (again.log.first_offset, again.log.end_offset) == (0, 3000)
    assert not again.allocator.is_due
    allocated = disk.counts["allocate"]
    appended, _ = await again.put(draft_of_size(2000))
    assert (appended.physical_offset, disk.counts["allocate"]) == (4096, allocated)
    # Neither the file being written nor a preallocated one is deleted.
    assert again.log.delete_before(10**9) == 1
    assert disk.names(LOG) == [name(1)]
    await again.close()


def test_records_in_a_file_preallocated_by_a_killed_process_are_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A power cut follows after the next process has used the file: its directory entry must be durable by then."""
    without_threads(monkeypatch)
    for operations in range(8):
        disk = SimulatedDisk()
        store = store_without_index(disk)
        put(store, draft_of_size(3000))
        disk.stop_after = disk.operations + operations
        new_file = store._segments.prepare(4096)
        try:
            new_file.run()
        except Stopped:
            assert operations < 6
        disk.stop_after = None

        again = new_store(disk, config(message_index_enable=False))
        again.recover()
        put(again, draft_of_size(2000))
        run(again.flusher.flush())

        for left in disk.after_power_cut(seed=operations):
            assert len(all_records(store_without_index(left), "t")) == 2
