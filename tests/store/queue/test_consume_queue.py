"""ConsumeQueue: appending, reading, cutting, expiring and syncing entries."""

import errno
import struct
from pathlib import Path

import pytest

from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.consume_queue import Backlog, ConsumeQueue, Entry
from tests.store.disks import SimulatedDisk

DIRECTORY = Path("/store/consumequeue/orders/0")
# Eight entries to a file.
SIZE = 160
FILLER = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)


def new_queue(disk: SimulatedDisk, size: int = SIZE) -> ConsumeQueue:
    return ConsumeQueue(Segments(OpenFiles(disk, 10), DIRECTORY, size, is_sparse=True))


def loaded(disk: SimulatedDisk) -> ConsumeQueue:
    queue = new_queue(disk)
    queue.load()
    return queue


def fill(queue: ConsumeQueue, count: int) -> None:
    """Append entries of adjacent records of 100 bytes."""
    for number in range(queue.max_offset, queue.max_offset + count):
        assert queue.append(number, number * 100, 100, number)


def entries(queue: ConsumeQueue) -> list[int]:
    """Return for each entry the number of its record, or -1 for a filler."""
    found = queue.entries(queue.min_offset, 10_000)
    return [-1 if entry.is_filler else entry.physical_offset // 100 for entry in found]


def test_entries_have_the_bytes_that_java_writes() -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    queue.append(0, 0, 161, 2598919)
    queue.append(1, 0x1_0000_0000, 200, -1)

    queue.flush()

    assert disk.content(DIRECTORY / f"{0:020d}") == bytes.fromhex(
        "0000000000000000 000000a1 000000000027a807 0000000100000000 000000c8 ffffffffffffffff"
    ).ljust(SIZE, b"\0")


def test_pending_and_flushed_entries_are_read() -> None:
    queue = new_queue(SimulatedDisk())
    fill(queue, 5)
    queue.flush()

    fill(queue, 20)

    assert entries(queue) == list(range(25))
    assert queue.entry(4) == Entry(400, 100, 4)
    assert queue.entry(5) == Entry(500, 100, 5)
    assert queue.entry(25) is None
    assert list(queue.entries(3, 4)) == [Entry(number * 100, 100, number) for number in range(3, 7)]


def test_entries_continue_in_the_next_file() -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, 20)

    queue.flush()

    assert disk.names(DIRECTORY) == [f"{start:020d}" for start in (0, 160, 320)]
    assert entries(queue) == list(range(20))
    assert len(queue.read(6, 10)) == 2 * 20


def test_a_record_is_added_once() -> None:
    queue = new_queue(SimulatedDisk())
    fill(queue, 3)

    assert not queue.append(2, 200, 100, 2)
    assert not queue.append(0, 0, 100, 0)

    assert entries(queue) == [0, 1, 2]


def test_loading_finds_the_end_of_the_queue() -> None:
    for count in range(20):
        disk = SimulatedDisk()
        queue = new_queue(disk)
        fill(queue, count)
        queue.flush()

        again = loaded(disk)

        assert (again.min_offset, again.max_offset) == (0, count)
        assert again.max_physical_offset == count * 100
        fill(again, 1)
        assert entries(again) == list(range(count + 1))


def test_a_queue_may_begin_anywhere() -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)

    queue.append(11, 1100, 100, 0)
    queue.flush()

    # As in Java, the part of the file before it is filled.
    assert disk.content(DIRECTORY / f"{160:020d}") == (FILLER * 3 + struct.pack(">qiq", 1100, 100, 0)).ljust(
        SIZE, b"\0"
    )
    assert (queue.min_offset, queue.max_offset) == (11, 12)
    again = loaded(disk)
    again.delete_before(0)
    assert entries(again)[-1] == 11
    assert again.max_offset == 12


@pytest.mark.parametrize("first", [7, 8, 9])
def test_an_unflushed_queue_that_begins_anywhere_is_cut_and_deleted_from(first: int) -> None:
    queue = new_queue(SimulatedDisk())
    for number in range(first, 20):
        queue.append(number, number * 100, 100, 0)

    queue.cut(1800)
    assert entries(queue) == list(range(first, 18))
    queue.delete_before(1000)

    assert entries(queue) == list(range(10, 18))


@pytest.mark.parametrize("count", range(1, 12))
@pytest.mark.parametrize("missing", [1, 3, 8, 30])
def test_missing_entries_become_fillers_and_earlier_ones_stay(count: int, missing: int) -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, count)
    later = count + missing

    assert queue.append(later, later * 100, 100, 0)

    expected = [*range(count), *[-1] * missing, later]
    assert entries(queue) == expected
    queue.flush()
    assert entries(loaded(disk)) == expected


def test_a_gap_larger_than_the_log_had_room_for_is_rejected() -> None:
    queue = new_queue(SimulatedDisk())
    fill(queue, 3)

    assert not queue.append(2**40, 300, 100, 0)
    assert not queue.append(4, 300, 100, 0)
    assert not queue.append(-1, 300, 100, 0)
    assert not queue.append(1, 300, 100, 0)

    assert entries(queue) == [0, 1, 2]
    assert queue.append(3, 400, 100, 3)


def test_a_recreated_topic_starts_its_queue_again() -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, 12)
    queue.flush()

    queue.append(0, 5000, 100, 0)
    queue.flush()

    assert entries(queue) == entries(loaded(disk)) == [50]


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 9, 15, 16, 19, 20])
@pytest.mark.parametrize("flushed", [0, 9, 20])
def test_cutting_removes_the_entries_of_lost_records(kept: int, flushed: int) -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, flushed)
    queue.flush()
    fill(queue, 20 - flushed)

    queue.cut(kept * 100 + (50 if kept < 20 else 0))

    assert entries(queue) == list(range(kept))
    assert queue.max_physical_offset == kept * 100
    queue.flush()
    assert entries(loaded(disk)) == list(range(kept))
    fill(queue, 2)
    queue.flush()
    assert entries(loaded(disk)) == list(range(kept + 2))


def test_cutting_treats_a_filler_like_the_next_entry() -> None:
    for limit in range(30):
        queue = new_queue(SimulatedDisk())
        fill(queue, 3)
        queue.append(12, 1200, 100, 0)
        queue.append(13, 1300, 100, 0)
        queue.append(25, 2500, 100, 0)

        queue.cut(limit * 100)

        kept = [number for number in entries(queue) if number >= 0]
        assert kept == [number for number in (0, 1, 2, 12, 13, 25) if number < limit]
        assert queue.entry(queue.max_offset - 1) is None or entries(queue)[-1] >= 0


def test_after_a_crash_entries_are_kept_up_to_the_last_one_known_to_the_log() -> None:
    """Some pages of the entries after the first ten never reached the disk, and one entry lacks its first bytes."""
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, 40)
    queue.flush()
    for start, data in ((160, bytes(80)), (240, bytes(7) + b"\1"), (480, bytes(160))):
        name, at = DIRECTORY / f"{start // SIZE * SIZE:020d}", start % SIZE
        disk.overwrite(name, at, data)

    again = loaded(disk)
    again.cut(800, lambda queue_offset, entry: entry.physical_offset == queue_offset * 100)

    assert entries(again) == list(range(8))
    # Nothing of the rest comes back.
    fill(again, 1)
    again.flush()
    assert entries(loaded(disk)) == list(range(9))


def test_a_damaged_record_does_not_cut_the_entries_after_it() -> None:
    for damaged in range(20):
        queue = new_queue(SimulatedDisk())
        fill(queue, 20)

        def is_known(queue_offset: int, _: Entry, damaged: int = damaged) -> bool:
            return queue_offset != damaged

        queue.cut(2000, is_known)

        assert queue.max_offset >= (20 if damaged < 19 else 19)


def test_deleting_advances_min_offset_and_removes_whole_files() -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, 20)
    queue.flush()

    queue.delete_before(950)
    assert (queue.min_offset, queue.max_offset) == (10, 20)
    assert disk.names(DIRECTORY) == [f"{start:020d}" for start in (160, 320)]
    queue.delete_before(2000)
    assert (queue.min_offset, queue.max_offset) == (20, 20)
    assert disk.names(DIRECTORY) == [f"{320:020d}"]

    again = loaded(disk)
    again.delete_before(2000)
    assert (again.min_offset, again.max_offset) == (20, 20)
    fill(again, 1)
    assert entries(again) == [20]


def test_expiring_a_queue_without_expired_entries_takes_one_read() -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, 20)
    queue.flush()
    queue.expire(950)
    assert (queue.min_offset, len(disk.names(DIRECTORY))) == (10, 3)
    reads = disk.counts["read"]

    queue.expire(1000)
    assert (queue.min_offset, disk.counts["read"]) == (10, reads + 1)
    queue.expire(2000)
    reads = disk.counts["read"]
    queue.expire(3000)

    assert (queue.min_offset, disk.counts["read"]) == (20, reads)
    assert queue.has_expired(2000)
    assert not queue.has_expired(1999)
    assert not new_queue(disk).has_expired(10**9)


def test_last_unsynced_is_the_record_of_the_last_entry_that_is_not_durable() -> None:
    queue = new_queue(SimulatedDisk())
    assert queue.last_unsynced() is None
    fill(queue, 10)
    assert queue.last_unsynced() == 900
    queue.flush()
    assert queue.last_unsynced() == 900

    queue.sync()

    assert queue.last_unsynced() is None


def test_deleting_considers_pending_entries() -> None:
    queue = new_queue(SimulatedDisk())
    fill(queue, 20)

    queue.delete_before(1500)

    assert (queue.min_offset, queue.max_offset) == (15, 20)
    assert entries(queue) == list(range(15, 20))


@pytest.mark.parametrize("kind", ["write", "truncate", "open"])
def test_entries_that_could_not_be_written_stay_pending(kind: str) -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, 12)
    disk.fail(kind, errno.ENOSPC, at=1, count=1)

    with pytest.raises(OSError):
        queue.flush()
    assert entries(queue) == list(range(12))
    queue.flush()

    assert entries(queue) == entries(loaded(disk)) == list(range(12))


def test_synced_entries_and_their_directories_survive_a_power_cut() -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY.parent.parent)
    disk.sync(DIRECTORY.parent.parent.parent)
    disk.sync(Path("/"))
    queue = new_queue(disk)
    for _ in range(4):
        fill(queue, 5)
        assert not queue.is_durable
        queue.flush()
        assert not queue.is_durable
        queue.sync()
        assert queue.is_durable

        for left in disk.after_power_cut():
            assert entries(loaded(left)) == list(range(queue.max_offset))


def test_only_files_with_new_entries_are_synced() -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, 50)
    queue.flush()
    queue.sync()
    before = disk.counts["sync"]

    fill(queue, 2)
    queue.flush()
    queue.sync()

    assert disk.counts["sync"] - before == 1


def test_a_queue_is_not_durable_after_a_failed_sync() -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk)
    fill(queue, 2)
    queue.flush()
    disk.fail("sync", errno.EIO, count=1)

    sync = queue.prepare_sync()
    with pytest.raises(Exception, match="sync has failed"):
        sync.run()
    queue.release(sync)

    assert not queue.is_durable


def numbers(queue: ConsumeQueue, first: int, count: int) -> list[int]:
    return [entry[0] // 100 for entry in struct.iter_unpack(">qiq", queue.read(first, count))]


def test_sequential_reads_use_the_read_ahead_data(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = new_queue(SimulatedDisk(), 8000)
    fill(queue, 300)
    queue.flush()
    reads: list[int] = []
    read = Segments.read

    def noted(self: Segments, offset: int, size: int) -> bytes:
        reads.append(offset)
        return read(self, offset, size)

    monkeypatch.setattr(Segments, "read", noted)

    found = [number for first in range(0, 288, 32) for number in numbers(queue, first, 32)]

    assert found == list(range(288))
    assert len(reads) == 2


def test_read_ahead_data_is_dropped_when_entries_change() -> None:
    disk = SimulatedDisk()
    queue = new_queue(disk, 8000)
    fill(queue, 20)
    queue.flush()
    assert numbers(queue, 0, 20) == list(range(20))

    queue.cut(1000)
    for number in range(10, 20):
        assert queue.append(number, number * 100 + 5000, 100, number)
    queue.flush()

    assert numbers(queue, 0, 20) == [*range(10), *range(60, 70)]
    reopened = new_queue(disk, 8000)
    reopened.load()
    for number in range(20, 40):
        assert reopened.append(number, number * 100 + 5000, 100, number)
    reopened.flush()
    assert numbers(reopened, 8, 32) == [8, 9, *range(60, 90)]


def test_the_number_of_queues_with_read_ahead_data_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerolox.store.queue.consume_queue._AHEAD_QUEUES_MAX", 2)
    backlog, disk = Backlog(), SimulatedDisk()
    queues = [
        ConsumeQueue(Segments(OpenFiles(disk, 10), DIRECTORY.with_name(str(number)), 8000, is_sparse=True), backlog)
        for number in range(4)
    ]
    for queue in queues:
        fill(queue, 50)
        queue.flush()
        assert numbers(queue, 0, 10) == list(range(10))

    assert [bool(queue._ahead) for queue in queues] == [False, False, True, True]
    backlog.forget(queues[2])
    assert numbers(queues[0], 40, 10) == list(range(40, 50))
    assert [bool(queue._ahead) for queue in queues] == [True, False, True, True]


def test_first_after_finds_the_first_record_at_or_after_an_offset() -> None:
    queue = new_queue(SimulatedDisk())
    fill(queue, 10)
    starts = [entry.physical_offset for entry in queue.entries(0, 10)]

    assert [queue.first_after(start) for start in starts] == list(range(10))
    assert [queue.first_after(start + 1) for start in starts] == list(range(1, 11))
    assert queue.first_after(0) == 0
