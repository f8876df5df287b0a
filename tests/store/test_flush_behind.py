"""Writing queues behind the log: written often, synced rarely, many at once, idle queues not at all."""

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kerolox.runtime.clock import ManualClock
from kerolox.store.errors import StoreFull, StoreReadOnly
from kerolox.store.index.layout import HEADER, IndexHeader
from kerolox.store.recovery.checkpoint import Checkpoint
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import (
    ROOT,
    StillClock,
    all_records,
    config,
    draft,
    new_store,
    opened,
    put,
    run,
    without_threads,
)

LARGE = {"mapped_file_size_commit_log": 1024 * 1024, "mapped_file_size_consume_queue": 20 * 10_000}


class CountingDisk(SimulatedDisk):
    """Records what is synced, and in which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.threads: set[int] = set()

    def _change(self, kind: str, path: Path, halfway: Callable[[], None] = lambda: None) -> None:
        if kind == "sync":
            self.synced.append(str(path))
            self.threads.add(threading.get_ident())
        super()._change(kind, path, halfway)

    def queues_synced(self) -> list[str]:
        found = [path for path in self.synced if "consumequeue" in path and path.endswith(f"{0:020d}")]
        self.synced.clear()
        return found


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


def new(disk: SimulatedDisk, clock: ManualClock | None = None, **settings: object) -> Store:
    return opened(disk, config(message_index_enable=False, **(LARGE | settings)), clock)


def checkpoint(disk: SimulatedDisk) -> int:
    found = Checkpoint(disk, ROOT / "checkpoint")
    found.load()
    return found.queues_timestamp


async def test_few_entries_are_written_but_not_synced(disk: CountingDisk) -> None:
    store = new(disk)
    put(store, draft(), draft(queue_id=1))
    disk.synced.clear()

    await store.flush_behind.write()

    assert disk.queues_synced() == []
    assert disk.content(ROOT / "consumequeue" / "orders" / "1" / f"{0:020d}")[:20] != bytes(20)
    assert not store.queues.backlog.unwritten
    await store.flush_behind.flush()
    assert len(disk.queues_synced()) == 2
    assert not store.queues.backlog.unsynced


async def test_a_queue_with_two_written_pages_is_synced(disk: CountingDisk) -> None:
    store = new(disk)
    for _ in range(10):
        put(store, *[draft() for _ in range(40)], draft(queue_id=1))
    await store.flush_behind.write()
    assert disk.queues_synced() == []

    put(store, *[draft() for _ in range(10)], draft(queue_id=1))
    await store.flush_behind.write()

    assert disk.queues_synced() == [str(ROOT / "consumequeue" / "orders" / "0" / f"{0:020d}")]
    put(store, draft())
    await store.flush_behind.write()
    assert disk.queues_synced() == []


async def test_the_thorough_interval_syncs_everything_and_the_checkpoint(disk: CountingDisk) -> None:
    clock = ManualClock()
    store = new_store(disk, config(message_index_enable=False, **LARGE), clock)
    await store.open()
    running = asyncio.create_task(store.run())
    put(store, draft())
    stored = clock.millis()

    for _ in range(58):
        await clock.advance(1)
    assert disk.queues_synced() == []
    assert checkpoint(disk) == 0
    async with asyncio.timeout(20):
        while not checkpoint(disk):
            await clock.advance(1)

    assert checkpoint(disk) == stored
    assert clock.millis() - stored >= 60_000
    assert len(disk.queues_synced()) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await store.close()


async def test_many_queues_are_synced_by_few_thread_calls_while_other_tasks_run(
    disk: CountingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, iterations = 0, 0

    async def counted(function, *args):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        return await asyncio.to_thread(function, *args)

    async def count_iterations() -> None:
        nonlocal iterations
        while True:
            iterations += 1
            await asyncio.sleep(0)

    monkeypatch.setattr("kerolox.store.flush_behind.in_thread", counted)
    store = new(disk)
    put(store, *[draft(queue_id=number) for number in range(1000)])
    disk.synced.clear()
    others = asyncio.create_task(count_iterations())

    await store.flush_behind.flush()

    others.cancel()
    assert len(disk.queues_synced()) == 1000
    # One for the write-back, sixteen for the queues, one for the state file, and one for the checkpoint.
    assert calls == 19
    assert disk.counts["write_back"] == 1
    assert iterations >= 60
    await store.close()


async def test_queues_are_synced_although_the_write_back_fails(disk: CountingDisk) -> None:
    store = new(disk)
    put(store, *[draft(queue_id=number) for number in range(100)])
    disk.synced.clear()
    disk.fail("write_back", errno.EMFILE)

    await store.flush_behind.flush()

    assert len(disk.queues_synced()) == 100
    assert not store.flush_behind.is_lost
    await store.close()


async def test_a_directory_is_synced_once_for_all_queues_of_a_call(disk: CountingDisk) -> None:
    store = new(disk)
    put(store, *[draft(queue_id=number) for number in range(60)])
    disk.synced.clear()

    await store.flush_behind.flush()

    assert disk.synced.count(str(ROOT / "consumequeue")) == 1
    assert disk.synced.count(str(ROOT / "consumequeue" / "orders")) == 1
    assert disk.synced.count(str(ROOT / "consumequeue" / "orders" / "59")) == 1
    for left in disk.after_power_cut():
        again = new(left)
        assert sum(len(all_records(again, "orders", number)) for number in range(60)) == 60


async def test_idle_queues_cause_no_disk_operations(disk: CountingDisk) -> None:
    store = new(disk)
    put(store, *[draft(queue_id=number) for number in range(200)])
    await store.flush_behind.flush()
    before = disk.operations, sum(disk.counts.values())

    await store.flush_behind.write()
    assert (disk.operations, sum(disk.counts.values())) == before
    put(store, draft(queue_id=7))
    await store.flush_behind.write()

    # The record and its entry.
    assert disk.operations - before[0] == 2


async def test_unwritten_entries_in_memory_are_limited(disk: CountingDisk) -> None:
    store = new(disk, queue_entries_pending_max=50)
    put(store, draft())
    disk.fail("write open truncate", errno.ENOSPC, inside="consumequeue")
    with pytest.raises(OSError, match="No space"):
        await store.flush_behind.write()

    put(store, *[draft() for _ in range(49)])
    put(store, draft())
    for _ in range(3):
        with pytest.raises(StoreFull, match="cannot follow"):
            store.append([draft()])
    assert store.queues.backlog.entries == 51
    assert len(all_records(store)) == 51
    disk.heal()
    put(store, draft())

    assert len(all_records(store)) == 52
    assert store.queues.backlog.entries == 1


async def test_too_many_entries_in_memory_are_written_at_once(disk: CountingDisk) -> None:
    store = new(disk, queue_entries_pending_max=50)

    for _ in range(10):
        put(store, *[draft(queue_id=number) for number in range(20)])
        assert store.queues.backlog.entries <= 50

    assert sum(len(all_records(store, "orders", number)) for number in range(20)) == 200


def test_a_failing_queue_does_not_stop_the_others(disk: CountingDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    store = new(disk)
    put(store, *[draft(queue_id=number) for number in range(5)])
    disk.fail("sync", errno.EIO, count=1, inside="orders/2")
    disk.synced.clear()

    with pytest.raises(StoreReadOnly, match="sync has failed"):
        run(store.flush_behind.flush())

    assert len(disk.queues_synced()) == 5
    assert list(store.queues.backlog.unsynced) == [store.queues.get("orders", 2)]
    # It stays unknown what is durable.
    run(store.flush_behind.flush())
    assert store.flush_behind.is_lost
    assert checkpoint(disk) == 0


def test_running_out_of_descriptors_is_not_a_failed_sync(disk: CountingDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    store = new(disk)
    put(store, draft())
    run(store.flush_behind.write())
    disk.fail("sync", errno.EMFILE, count=1, at=1, inside="consumequeue")

    with pytest.raises(OSError, match="Too many open files"):
        run(store.flush_behind.flush())
    assert not store.flush_behind.is_lost
    run(store.flush_behind.flush())

    assert checkpoint(disk) > 0
    assert len(all_records(new(next(disk.after_power_cut(count=0))))) == 1


@pytest.mark.parametrize(("kind", "inside"), [("write", "checkpoint"), ("open", "checkpoint"), ("write", "index")])
def test_after_a_full_disk_the_checkpoint_advances_and_the_stop_is_clean(
    disk: CountingDisk, monkeypatch: pytest.MonkeyPatch, kind: str, inside: str
) -> None:
    without_threads(monkeypatch)
    store = opened(disk, config(**LARGE))
    put(store, draft(KEYS="first"))
    if kind == "write":
        run(store.flush_behind.flush())
    before = checkpoint(disk)
    put(store, draft(KEYS="second"))
    disk.fail(kind, errno.ENOSPC, inside=inside)

    with pytest.raises(OSError, match="No space left"):
        run(store.flush_behind.flush())

    assert checkpoint(disk) == before
    assert not store.flush_behind.is_lost
    disk.heal()
    run(store.flush_behind.flush())
    assert checkpoint(disk) > 0
    left = next(disk.after_power_cut(count=0))
    run(store.close())
    assert "abort" not in disk.names(ROOT)
    for again in (opened(left, config(**LARGE)), opened(disk, config(**LARGE))):
        assert again.index is not None
        assert len(all_records(again)) == 2
        assert [len(again.index.query("orders", key, 10)) for key in (b"first", b"second")] == [1, 1]


def test_java_drops_no_index_file_wherever_a_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an unclean stop Java drops index files newer than the checkpoint, and older keys with them."""
    without_threads(monkeypatch)
    stop_after, is_done = 0, False
    while not is_done:
        disk, clock = CountingDisk(), StillClock()
        store = opened(disk, config(**LARGE), clock)
        put(store, draft(KEYS="first"))
        run(store.flush_behind.flush())
        clock.move(60)
        put(store, draft(KEYS="second"))
        disk.stop_after = disk.operations + stop_after
        try:
            run(store.flush_behind.flush())
            is_done = True
        except Stopped:
            stop_after += 1

        left = disk.after_kill()

        found = Checkpoint(left, ROOT / "checkpoint")
        found.load()
        for name in left.names(ROOT / "index"):
            header = IndexHeader.decode(left.content(ROOT / "index" / name)[: HEADER.size])
            assert header.end_timestamp <= found.index_timestamp, stop_after
        again = opened(left, config(**LARGE))
        assert again.index is not None
        assert [len(again.index.query("orders", key, 10)) for key in (b"first", b"second")] == [1, 1]
    assert stop_after > 8


def test_a_checkpoint_whose_sync_has_failed_is_not_written_again(
    disk: CountingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_threads(monkeypatch)
    store = new(disk)
    put(store, draft())
    disk.fail("sync", errno.EIO, count=1, inside="checkpoint")

    with pytest.raises(StoreReadOnly, match="sync has failed"):
        run(store.flush_behind.flush())
    run(store.flush_behind.flush())

    assert store.flush_behind.is_lost
    run(store.close())
    assert "abort" in disk.names(ROOT)
    assert len(all_records(new(disk))) == 1


def test_a_forgotten_queue_is_not_written(disk: CountingDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    store = new(disk)
    put(store, draft(), draft(), draft(queue_id=1))
    queue = store.queues.get("orders", 0)
    assert queue is not None

    store.queues.backlog.forget(queue)
    store.queues.backlog.forget(queue)
    assert store.queues.backlog.entries == 1
    run(store.flush_behind.flush())

    assert disk.names(ROOT / "consumequeue" / "orders") == ["1"]
