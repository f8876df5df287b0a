"""ColdReads: old messages are read in threads while other requests continue; recent ones need no disk."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.runtime.files import RealDisk
from kerolox.store.config import StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.log.segments import NotInMemory
from kerolox.store.reader import GetResult, GetStatus
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, config, draft, draft_of_size, fetched, new_store, opened, put


class ColdDisk(SimulatedDisk):
    """A disk with an empty page cache. While slow, each read of the log waits for a permit; reads on the loop count."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.permits = threading.Semaphore(0)
        self.is_slow = False
        self.on_loop = 0
        self._thread = threading.get_ident()
        self.fail("read_cached", errno.EAGAIN)

    def _count_read(self, kind: str, path: Path) -> None:
        if kind == "read" and self.is_slow:
            self.on_loop += threading.get_ident() == self._thread
            if path.parent == LOG:
                self.begun.release()
                assert self.permits.acquire(timeout=20)
        super()._count_read(kind, path)


@pytest.fixture
def disk() -> Iterator[ColdDisk]:
    disk = ColdDisk()
    yield disk
    disk.permits.release(1000)


async def reopened(disk: SimulatedDisk, bodies: list[bytes], settings: StoreConfig | None = None) -> Store:
    """Return a reopened store with messages of the topic `orders`."""
    store = opened(disk, settings)
    put(store, *[draft(body) for body in bodies])
    await store.close()
    return opened(disk, settings)


async def read(store: Store, queue_offset: int = 0, topic: str = "orders") -> GetResult:
    return await fetched(store, topic, 0, queue_offset)


async def test_records_of_an_earlier_process_are_read_in_a_thread(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"one", b"two", b"three"])
    disk.is_slow = True
    disk.permits.release(1000)

    got = await read(store)

    assert (got.status, got.count, got.next_offset) == (GetStatus.FOUND, 3, 3)
    assert disk.on_loop == 0
    disk.is_slow = False
    assert got.records == store.reader.get("orders", 0, 0).records
    await store.close()


async def test_recent_records_of_this_process_need_no_disk(disk: ColdDisk) -> None:
    store = opened(disk)
    put(store, draft(b"one"), draft(b"two"))
    disk.is_slow = True

    got = await read(store)

    assert (got.count, disk.on_loop) == (2, 0)
    disk.is_slow = False
    await store.close()


async def test_old_records_of_this_process_are_read_in_a_thread(disk: ColdDisk) -> None:
    store = opened(disk, config(mapped_bytes_max=1000))
    for _ in range(6):
        put(store, draft_of_size(500))
    disk.is_slow = True
    disk.permits.release(1000)

    old, new = await read(store, topic="t"), await read(store, 4, topic="t")

    assert (old.count, new.count) == (6, 2)
    assert disk.begun.acquire(blocking=False)
    assert not disk.begun.acquire(blocking=False)
    disk.is_slow = False
    await store.close()


async def test_writes_and_other_reads_continue_while_the_disk_hangs(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"old"], config(cold_read_threads=2))
    disk.is_slow = True
    waiting = [asyncio.create_task(read(store)) for _ in range(8)]
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

    for _ in range(20):
        await store.put(draft(b"new", "others"))
    await store.flusher.flush()
    assert (await read(store, topic="others")).count == 20
    assert not any(task.done() for task in waiting)

    disk.permits.release(1000)
    assert [got.count for got in await asyncio.gather(*waiting)] == [1] * 8
    assert disk.on_loop == 0
    disk.is_slow = False
    await store.close()


async def test_a_failed_read_of_the_log_is_a_store_error_and_affects_no_other_request(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"lost"])
    disk.fail("read", errno.EIO, inside="commitlog")

    for _ in range(2):
        with pytest.raises(StoreError, match="Input/output error"):
            await read(store)

    appended, _ = await store.put(draft(b"new"))
    assert appended.queue_offset == 1
    assert (await read(store, 1)).count == 1
    disk.heal()
    assert (await read(store)).count == 2
    await store.close()


async def test_a_failed_read_of_a_queue_is_a_store_error(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"lost"])
    disk.fail("read", errno.EIO, inside="consumequeue")

    with pytest.raises(StoreError, match="Input/output error"):
        await read(store)

    disk.heal()
    await store.close()


async def test_all_missing_spans_are_fetched_together(disk: ColdDisk) -> None:
    settings = config(mapped_file_size_commit_log=1 << 20)
    store = opened(disk, settings)
    for _ in range(20):
        put(store, draft(), draft_of_size(10_000))
    await store.close()
    store = opened(disk, settings)
    opened_at = disk.counts["read_cached"]

    got = await read(store)

    assert got.count == 20
    # Each queue entry and each record is tried once in vain, and again after a fetch.
    assert disk.counts["read_cached"] - opened_at < 80
    await store.close()


async def test_without_page_cache_information_only_the_log_is_read_in_a_thread(disk: ColdDisk) -> None:
    disk.heal()
    disk.lacks_cached_reads = True
    store = await reopened(disk, [b"one"])
    disk.is_slow = True
    disk.permits.release(1000)

    assert (await read(store)).count == 1

    assert disk.begun.acquire(blocking=False)
    assert disk.on_loop == 2
    disk.is_slow = False
    await store.close()


async def test_a_file_deleted_during_a_cold_read_counts_as_expired(disk: ColdDisk) -> None:
    settings = config(file_reserved_time=0, delete_commit_log_files_interval=0)
    store = await reopened(disk, [b"x" * 3000, b"y" * 3000, b"z" * 3000], settings)

    def get() -> GetResult:
        return store.reader.get(*("orders", 0, 0), count_max=1)

    with pytest.raises(NotInMemory) as missing:
        store.cold_reads.in_memory(get)
    store.retention.request_deletion()
    assert await store.retention.clean()

    got = await store.cold_reads.read(get, missing.value)

    assert got.status is GetStatus.OFFSET_TOO_SMALL
    await store.close()


async def test_a_read_that_keeps_missing_finally_waits_for_the_disk(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"one"])
    path, tries = LOG / f"{0:020d}", 0

    def read() -> bytes:
        nonlocal tries
        tries += 1
        return store._files.read(path, tries, 1)

    assert await store.cold_reads.read(read) == disk.content(path)[17:18]

    assert tries == 17
    await store.close()


async def test_a_repeated_read_may_need_less_than_was_fetched(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"one", b"two", b"three"])
    counts = iter((3, 3, 2))

    got = await store.cold_reads.read(lambda: store.reader.get("orders", 0, 0, count_max=next(counts)))

    assert (got.count, next(counts, None)) == (2, None)
    assert got.records == store.reader.get("orders", 0, 0, count_max=2).records
    await store.close()


async def test_only_the_read_itself_is_kept_from_waiting(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"one"])

    def get() -> GetResult:
        return store.reader.get("orders", 0, 0)

    with pytest.raises(NotInMemory):
        store.cold_reads.in_memory(get)

    assert get().count == 1
    assert store.cold_reads.in_memory(lambda: store._files.waiting(get)).count == 1
    with pytest.raises(NotInMemory):
        store.cold_reads.in_memory(lambda: (store._files.waiting(get), get()))
    await store.close()


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_on_a_real_disk_cached_and_uncached_records_are_read(tmp_path: Path, is_forgotten: bool) -> None:
    settings = config(store_path_root_dir=tmp_path / "store")
    store = new_store(RealDisk(), settings)
    store.recover()
    put(store, *[draft_of_size(1000, "orders") for _ in range(3)])
    await store.close()
    store = new_store(RealDisk(), settings)
    store.recover()
    if is_forgotten:
        for path in (tmp_path / "store").rglob("0000*"):
            descriptor = os.open(path, os.O_RDWR)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)

    assert (await read(store)).records == store.reader.get("orders", 0, 0).records

    await store.close()


async def test_a_bulk_read_is_fetched_and_served_without_a_copy(disk: ColdDisk) -> None:
    settings = config(mapped_file_size_commit_log=1 << 20, bulk_pull_count_max=1000, bulk_pull_bytes_max=1 << 20)
    store = opened(disk, settings)
    for number in range(8):
        put(store, draft_of_size(50_000), draft_of_size(20_000, "others", number % 2))
    await store.close()
    store = opened(disk, settings)

    def get() -> GetResult:
        bounds = store.reader.bulk_bounds
        return store.reader.get("t", 0, 0, count_max=1000, bytes_max=1 << 20, bounds=bounds)

    disk.heal()
    with pytest.raises(NotInMemory) as missing:
        store.cold_reads.in_memory(get)
    got = await store.cold_reads.read(get, missing.value)

    (span,) = missing.value.spans
    assert (span.is_view, span.offset, span.size) == (True, 0, 8 * 50_000 + 7 * 20_000)
    assert got.records == get().records
    assert all(isinstance(run, memoryview) and isinstance(run.obj, bytearray) for run in got.runs)
    disk.fail("read", errno.EIO, inside="commitlog")
    with pytest.raises(StoreError, match="Input/output error"):
        await store.cold_reads.read(get, missing.value)
    disk.heal()
    await store.close()
