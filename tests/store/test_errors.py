"""Failing disks: each operation fails once, or permanently. The store raises its own exceptions and continues."""

import contextlib
import errno
from collections.abc import Iterator, Sequence

import pytest

from kerolox.message.records.record import decode
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import StoreDamaged, StoreError, StoreFull, StoreReadOnly
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.store import Store
from tests.crash.proofs import record_proof
from tests.store.disks import SimulatedDisk
from tests.store.oracle import verified
from tests.store.stores import (
    LOG,
    ROOT,
    StillClock,
    all_records,
    batch,
    config,
    draft,
    draft_of_size,
    new_store,
    numbered_records,
    opened,
    put,
    run,
    without_threads,
)

pytestmark = pytest.mark.usefixtures("threadless")

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE)


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


class Workload:
    """Puts and flushes, whatever fails; remembers what was acknowledged."""

    def __init__(self, disk: SimulatedDisk, flush: FlushDiskType) -> None:
        self.disk = disk
        self.clock = StillClock()
        self.store = new_store(disk, config(flush), self.clock)
        self.accepted: list[bytes] = []
        self.acknowledged: list[bytes] = []

    def run(self) -> None:
        try:
            self.store.recover()
        except StoreError:
            return
        for number in range(5):
            self.put(draft(b"%d" % number * 100, KEYS=f"k{number}"))
            self.put(draft(b"x", "t"), batch([b"a", b"b"], "orders", 1), draft_of_size(900))
            self.clock.move(1)
            run(self.store.allocator.prepare())
            self.flush()
        for topic in ("orders", "t"):
            with contextlib.suppress(StoreError):
                self.store.reader.get(topic, 0, 0)
            with contextlib.suppress(StoreError):
                self.store.reader.find(topic, b"k1")
        with contextlib.suppress(StoreError):
            run(self.store.close())

    def put(self, *appends: Append) -> None:
        try:
            positions = self.store.append(appends)
        except StoreError:
            return
        for append, _ in zip(appends, positions, strict=False):
            self.accepted.append(bytes(append.records))

    def flush(self) -> None:
        run(self.store.flusher.flush())
        if self.store.flusher.failure is None and self.store.flusher.durable_offset == self.store.log.end_offset:
            self.acknowledged = list(self.accepted)
        # The background task catches these.
        with contextlib.suppress(OSError, StoreError):
            run(self.store.flush_behind.flush())


def failing_workloads(flush: FlushDiskType) -> Iterator[tuple[str, Workload]]:
    counted = Workload(SimulatedDisk(), flush)
    counted.run()
    for number in range(counted.disk.operations):
        error = ERRORS[number % len(ERRORS)]
        for failing in (error, errno.EIO) if error != errno.EIO else (error,):
            disk = SimulatedDisk()
            disk.fail_operation(number, failing)
            workload = Workload(disk, flush)
            workload.run()
            yield f"{errno.errorcode[failing]} at {number}", workload


def check(disk: SimulatedDisk, workload: Workload, expected: list[bytes], where: str) -> None:
    store = new_store(disk, workload.store.config)
    recovered = store.recover()
    verified(disk, store.config, recovered.damages)
    served = {data for key, _ in store.queues.items() for _, data in numbered_records(store, *key)}
    for data in expected:
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4])
            assert data[at : at + size] in served, where
            at += size
    run(store.close())
    assert verified(disk, store.config, recovered.damages).is_clean, where


def test_a_failed_operation_and_a_power_cut_lose_no_acknowledged_message() -> None:
    runs = promised = 0
    for where, workload in failing_workloads(FlushDiskType.SYNC_FLUSH):
        for image in workload.disk.after_power_cut(count=1):
            check(image, workload, workload.acknowledged, where)
            runs += 1
            promised += len(workload.acknowledged)
    record_proof("power cut after a failure", runs=runs, promised=promised)


def test_a_failed_operation_and_a_kill_lose_no_accepted_message() -> None:
    runs = promised = 0
    for where, workload in failing_workloads(FlushDiskType.ASYNC_FLUSH):
        check(workload.disk.after_kill(), workload, workload.accepted, where)
        runs += 1
        promised += len(workload.accepted)
    record_proof("killed after a failure", runs=runs, promised=promised)


def test_every_failing_read_raises_a_store_error() -> None:
    for kinds in ("open", "read", "size", "names"):
        for at in range(0, 60, 3):
            workload = Workload(SimulatedDisk(), FlushDiskType.ASYNC_FLUSH)
            workload.disk.fail(kinds, errno.EMFILE if kinds == "open" else errno.EIO, at=at, count=1)
            workload.run()
            workload.disk.heal()
            check(workload.disk.after_kill(), workload, workload.accepted, f"{kinds} at {at}")


@pytest.mark.parametrize("error", ERRORS, ids=lambda number: errno.errorcode[number])
def test_an_unwritable_store_refuses_messages_until_it_is_writable(error: int) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, draft(b"before"))
    disk.fail("write allocate", error)

    with pytest.raises(StoreFull, match="could not be written"):
        store.append([draft(b"refused")])
    assert len(all_records(store)) == 1
    disk.heal()
    put(store, draft(b"after"))

    assert [b"before" in data or b"after" in data for data in all_records(store)] == [True, True]


@pytest.mark.parametrize("error", ERRORS, ids=lambda number: errno.errorcode[number])
def test_after_a_failed_sync_writes_are_refused_and_reads_continue(error: int) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, draft(b"before"))
    disk.fail("sync", error, inside="commitlog", count=1)

    run(store.flusher.flush())

    assert store.flusher.durable_offset == 0
    for _ in range(2):
        with pytest.raises(StoreReadOnly, match="sync has failed"):
            store.append([draft(b"after")])
        run(store.flusher.flush())
    assert len(all_records(store)) == 1
    run(store.close())
    assert disk.read(ROOT / "abort") is not None


def test_after_a_failed_directory_sync_writes_are_refused() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    disk.fail("sync", errno.EIO, inside="commitlog", count=1)

    with pytest.raises(StoreReadOnly):
        store.append([draft()])
    with pytest.raises(StoreReadOnly):
        store.append([draft()])


def test_without_room_for_a_new_file_messages_that_fit_are_accepted() -> None:
    disk = SimulatedDisk()
    store = opened(disk, config(message_index_enable=False))
    put(store, draft_of_size(2000))
    disk.fail("allocate", errno.ENOSPC)

    positions = store.append([draft_of_size(1000), draft_of_size(2000), draft_of_size(100)])
    assert len(positions) == 1
    assert disk.names(LOG) == [f"{0:020d}"]
    with pytest.raises(StoreFull, match="No space left"):
        store.append([draft_of_size(2000)])
    # A message that fits into the current file needs no new one.
    put(store, draft_of_size(100))
    disk.heal()
    put(store, draft_of_size(2000))

    assert [len(data) for data in all_records(store, "t")] == [2000, 1000, 100, 2000]
    assert [offset for offset, _ in numbered_records(store, "t", 0)] == [0, 1, 2, 3]


def test_an_index_without_room_refuses_messages_and_loses_none() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    disk.fail("allocate", errno.ENOSPC, inside="index")

    put(store, draft(b"first", KEYS="k"))
    assert all_records(store) == [] or store.reader.find("orders", b"k") == []
    with pytest.raises(StoreFull, match="cannot follow"):
        store.append([draft(b"second")])
    disk.heal()
    put(store, draft(b"second"))

    assert len(all_records(store)) == 2
    assert len(store.reader.find("orders", b"k")) == 1


async def test_a_failing_dispatch_does_not_change_what_senders_are_notified_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A defect in dispatching must not refuse messages that are in the log."""

    def fails(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    class Notifications(list[str]):
        def stored(self, first: int, appended: Sequence[Appended], status: AckStatus) -> None:
            self.append(f"{len(appended)} stored")

        def refused(self, first: int, count: int, error: Exception) -> None:
            self.append(f"{count} refused: {error}")

    store = new_store(SimulatedDisk())
    await store.open()
    notifications = Notifications()
    with monkeypatch.context() as patched:
        patched.setattr(store.dispatcher, "dispatch_appended", fails)
        store.submit_all([draft(b"first")], notifications, at_once=True)
    assert (notifications, all_records(store)) == (["1 stored"], [])
    assert "queues and index cannot follow the commit log at 0: a defect" in caplog.messages

    store.submit_all([draft(b"second")], notifications, at_once=True)

    assert notifications == ["1 stored", "1 stored"]
    assert [decode(record).body for record in all_records(store)] == [b"first", b"second"]
    await store.close()


def without_room_for_the_index() -> tuple[SimulatedDisk, Store]:
    """Return the store of a killed process, opened on a disk without room for the next index file."""
    before = SimulatedDisk()
    store = opened(before)
    put(store, *[draft(b"%d" % number, KEYS=f"k{number} all") for number in range(10)])
    run(store.flush_behind.flush())
    # The twelfth message fills the index file.
    put(store, *[draft(b"%d" % number, KEYS=f"k{number} all") for number in range(10, 30)])
    disk = before.after_kill()
    for name in disk.names(ROOT / "index")[1:]:
        disk.remove(ROOT / "index" / name)
    disk.fail("allocate", errno.ENOSPC, inside="index")
    return disk, opened(disk)


def test_a_store_without_room_for_the_index_opens_and_reads_but_refuses_writes() -> None:
    disk, store = without_room_for_the_index()

    assert len(all_records(store)) == 30
    assert len(store.reader.find("orders", b"k5")) == 1
    assert store.reader.find("orders", b"k29") == []
    for _ in range(2):
        with pytest.raises(StoreFull, match="cannot follow"):
            store.append([draft()])
    run(store.close())

    # Not a clean stop: the next start has to complete the index.
    assert disk.read(ROOT / "abort") is not None
    disk.heal()
    again = opened(disk)
    assert len(again.reader.find("orders", b"all", count_max=100)) == 30


@pytest.mark.parametrize("size", [1, 1000, 10**9])
async def test_the_index_catches_up_when_there_is_room(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerolox.store.store._CATCH_UP_SIZE", size)
    disk, store = without_room_for_the_index()
    disk.heal()

    await store.flush_behind.write()

    assert [len(store.reader.find("orders", b"k%d" % number)) for number in range(30)] == [1] * 30
    assert len(all_records(store)) == 30
    (position,) = put(store, draft())
    assert position.queue_offset == 30
    await store.close()
    assert disk.read(ROOT / "abort") is None


def test_a_store_does_not_open_without_room_for_missing_queue_entries() -> None:
    disk = SimulatedDisk()
    put(opened(disk), draft(), draft(queue_id=1))
    left = disk.after_kill()
    # As if the first entry of the second queue were lost: the next one needs a filler before it.
    left.overwrite(LOG / f"{0:020d}", len(draft().records) + 20, (1).to_bytes(8))
    left.fail("truncate open write", errno.ENOSPC, inside="consumequeue")

    with pytest.raises(StoreError, match="No space left"):
        opened(left)


def test_a_queue_that_could_not_be_synced_is_rebuilt_after_the_stop() -> None:
    disk = SimulatedDisk()
    clock = StillClock()
    store = opened(disk, clock=clock)
    put(store, draft(b"a"))
    clock.move(100)
    disk.fail("sync", errno.EIO, inside="consumequeue", count=1)
    with pytest.raises(StoreReadOnly):
        run(store.flush_behind.flush())

    put(store, draft(b"b"))
    run(store.flush_behind.flush())
    run(store.close())

    again = opened(next(disk.after_power_cut(count=0)))
    assert len(all_records(again)) == 2


def test_a_store_whose_disk_fails_refuses_to_open_with_the_reason() -> None:
    disk = SimulatedDisk()
    disk.fail("write", errno.EROFS, inside="abort")

    with pytest.raises(StoreError, match="Read-only file system"):
        opened(disk)


def test_a_commit_log_file_of_a_wrong_size_is_refused() -> None:
    disk = SimulatedDisk()
    store: Store = opened(disk)
    put(store, draft())
    run(store.close())
    disk.open(LOG / f"{0:020d}").truncate(4000)

    with pytest.raises(StoreDamaged, match="4000 bytes, expected 4096"):
        opened(disk)


def test_bytes_of_refused_messages_are_erased_by_a_clean_stop() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, draft(b"before"))
    disk.fail("write", errno.ENOSPC)
    with pytest.raises(StoreFull):
        store.append([draft(b"refused")])
    disk.heal()

    run(store.close())

    assert verified(disk, store.config).records == 1
    assert b"refu" not in disk.content(LOG / f"{0:020d}")


def test_a_partly_written_blank_is_erased_by_a_clean_stop() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, draft_of_size(3000))
    disk.fail("write", errno.ENOSPC)
    with pytest.raises(StoreFull):
        store.append([draft_of_size(2000)])
    disk.heal()

    run(store.close())

    assert verified(disk, store.config).records == 1
