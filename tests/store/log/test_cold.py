"""Old messages come from the disk while everybody else goes on; what was written lately needs no disk at all."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.runtime.files import RealDisk
from kerolox.store.configuration import StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.log.segments import Brought, NotInMemory, Span
from kerolox.store.reader import GetStatus, Got
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, config, draft, draft_of_size, fetched, new_store, opened, put


class ColdDisk(SimulatedDisk):
    """Has nothing in memory; once it is slow, it reads the log when it is let go. Counts what is read on the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        self.is_slow = False
        self.on_loop = 0
        self._thread = threading.get_ident()
        self.fail("read_cached", errno.EAGAIN)

    def _look(self, kind: str, path: Path) -> None:
        if kind == "read" and self.is_slow:
            self.on_loop += threading.get_ident() == self._thread
            if path.parent == LOG:
                self.begun.release()
                assert self.let_go.acquire(timeout=20)
        super()._look(kind, path)


@pytest.fixture
def disk() -> Iterator[ColdDisk]:
    disk = ColdDisk()
    yield disk
    disk.let_go.release(1000)


async def reopened(disk: SimulatedDisk, bodies: list[bytes], settings: StoreConfig | None = None) -> Store:
    """A store in which another process has left messages of the topic `orders`."""
    store = opened(disk, settings)
    put(store, *[draft(body) for body in bodies])
    await store.close()
    return opened(disk, settings)


async def read(store: Store, queue_offset: int = 0, topic: str = "orders") -> Got:
    return await fetched(store, topic, 0, queue_offset)


async def test_what_another_process_wrote_is_read_in_a_thread(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"one", b"two", b"three"])
    disk.is_slow = True
    disk.let_go.release(1000)

    got = await read(store)

    assert (got.status, got.count, got.next_offset) == (GetStatus.FOUND, 3, 3)
    assert disk.on_loop == 0
    disk.is_slow = False
    assert got.records == store.reader.get("orders", 0, 0).records
    await store.close()


async def test_what_this_process_wrote_lately_needs_no_disk(disk: ColdDisk) -> None:
    store = opened(disk)
    put(store, draft(b"one"), draft(b"two"))
    disk.is_slow = True

    got = await read(store)

    assert (got.count, disk.on_loop) == (2, 0)
    disk.is_slow = False
    await store.close()


async def test_what_it_wrote_long_ago_is_read_in_a_thread_too(disk: ColdDisk) -> None:
    store = opened(disk, config(mapped_bytes_max=1000))
    for _ in range(6):
        put(store, draft_of_size(500))
    disk.is_slow = True
    disk.let_go.release(1000)

    old, new = await read(store, topic="t"), await read(store, 4, topic="t")

    assert (old.count, new.count) == (6, 2)
    assert disk.begun.acquire(blocking=False)
    assert not disk.begun.acquire(blocking=False)
    disk.is_slow = False
    await store.close()


async def test_while_a_disk_hangs_others_write_and_read(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"old"], config(cold_read_threads=2))
    disk.is_slow = True
    waiting = [asyncio.create_task(read(store)) for _ in range(8)]
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)

    for _ in range(20):
        await store.put(draft(b"new", "others"))
    await store.flusher.flush()
    assert (await read(store, topic="others")).count == 20
    assert not any(task.done() for task in waiting)

    disk.let_go.release(1000)
    assert [got.count for got in await asyncio.gather(*waiting)] == [1] * 8
    assert disk.on_loop == 0
    disk.is_slow = False
    await store.close()


async def test_what_the_disk_does_not_give_is_a_store_error_and_harms_nobody_else(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"lost"])
    disk.fail("read", errno.EIO, inside="commitlog")

    for _ in range(2):
        with pytest.raises(StoreError, match="Input/output error"):
            await read(store)

    place, _ = await store.put(draft(b"new"))
    assert place.queue_offset == 1
    assert (await read(store, 1)).count == 1
    disk.heal()
    assert (await read(store)).count == 2
    await store.close()


async def test_a_queue_that_the_disk_does_not_give_is_a_store_error(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"lost"])
    disk.fail("read", errno.EIO, inside="consumequeue")

    with pytest.raises(StoreError, match="Input/output error"):
        await read(store)

    disk.heal()
    await store.close()


async def test_all_that_is_missing_is_brought_at_once(disk: ColdDisk) -> None:
    settings = config(mapped_file_size_commit_log=1 << 20)
    store = opened(disk, settings)
    for _ in range(20):
        put(store, draft(), draft_of_size(10_000))
    await store.close()
    store = opened(disk, settings)
    opened_at = disk.counts["read_cached"]

    got = await read(store)

    assert got.count == 20
    # Each entry of the queue and each record once in vain, and once more when the other was brought.
    assert disk.counts["read_cached"] - opened_at < 80
    await store.close()


async def test_on_a_disk_that_does_not_tell_only_the_log_is_read_in_a_thread(disk: ColdDisk) -> None:
    disk.heal()
    disk.is_silent = True
    store = await reopened(disk, [b"one"])
    disk.is_slow = True
    disk.let_go.release(1000)

    assert (await read(store)).count == 1

    assert disk.begun.acquire(blocking=False)
    assert disk.on_loop == 2
    disk.is_slow = False
    await store.close()


async def test_a_file_that_is_deleted_meanwhile_is_not_missed(disk: ColdDisk) -> None:
    settings = config(file_reserved_time=0, delete_commit_log_files_interval=0)
    store = await reopened(disk, [b"x" * 3000, b"y" * 3000, b"z" * 3000], settings)
    with pytest.raises(NotInMemory) as missing:
        store.reader.get(*("orders", 0, 0), brought={}, count_max=1)
    store.retention.order()
    assert await store.retention.clean()

    got = await store.cold.read(
        lambda brought: store.reader.get(*("orders", 0, 0), brought=brought, count_max=1),
        missing.value,
    )

    assert got.status is GetStatus.OFFSET_TOO_SMALL
    await store.close()


async def test_whoever_misses_something_else_each_time_waits_in_the_end(disk: ColdDisk) -> None:
    store = await reopened(disk, [b"one"])
    asked: list[Brought | None] = []

    def read(brought: Brought | None) -> str:
        asked.append(brought)
        if brought is None:
            return "waited"
        raise NotInMemory([Span(LOG / f"{0:020d}", len(asked), 1)])

    assert await store.cold.read(read, NotInMemory([])) == "waited"

    assert len(asked) == 17
    await store.close()


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_on_a_real_disk_it_is_found_in_memory_and_not_in_memory(tmp_path: Path, is_forgotten: bool) -> None:
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


async def test_much_at_once_is_brought_to_memory_and_served_without_a_copy(disk: ColdDisk) -> None:
    settings = config(mapped_file_size_commit_log=1 << 20, bulk_pull_count_max=1000, bulk_pull_bytes_max=1 << 20)
    store = opened(disk, settings)
    for number in range(8):
        put(store, draft_of_size(50_000), draft_of_size(20_000, "others", number % 2))
    await store.close()
    store = opened(disk, settings)

    def get(brought: Brought | None) -> Got:
        bounds = store.reader.bulk_bounds
        return store.reader.get("t", 0, 0, count_max=1000, bytes_max=1 << 20, bounds=bounds, brought=brought)

    disk.heal()
    with pytest.raises(NotInMemory) as missing:
        get({})
    got = await store.cold.read(get, missing.value)

    (span,) = missing.value.spans
    assert (span.is_view, span.offset, span.size) == (True, 0, 8 * 50_000 + 7 * 20_000)
    assert got.records == get(None).records
    assert all(isinstance(run, memoryview) and isinstance(run.obj, bytearray) for run in got.runs)
    disk.fail("read", errno.EIO, inside="commitlog")
    with pytest.raises(StoreError, match="Input/output error"):
        await store.cold.read(get, missing.value)
    disk.heal()
    await store.close()
