"""Recovery of a store at startup."""

import errno
import logging
import struct
from collections.abc import Callable

import pytest

from kerolox.message.records.summary import peek
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.commit_log import Append
from kerolox.store.reader import GetStatus
from kerolox.store.recovery.log_checksums import FILES_READ
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import (
    LOG,
    ROOT,
    SEGMENT_SIZE,
    StillClock,
    all_records,
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

Make = Callable[..., SimulatedDisk]

FIRST = LOG / f"{0:020d}"


@pytest.fixture(autouse=True)
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


def keyed(number: int) -> Append:
    return draft(b"body %d" % number, KEYS=f"k{number} all")


def stopped(*appends: Append) -> SimulatedDisk:
    """Return a disk with these messages in a closed store."""
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *appends)
    run(store.close())
    return disk


def killed(*appends: Append) -> SimulatedDisk:
    disk = SimulatedDisk()
    put(opened(disk), *appends)
    return disk.after_kill()


def found(store: Store) -> list[int]:
    return sorted(known.physical_offset for known in store.reader.find("orders", b"all", count_max=1000))


def bodies(store: Store) -> list[int]:
    return [int(data[data.index(b"body ") + 5 :][:1]) for data in all_records(store)]


def test_an_empty_directory_becomes_a_store() -> None:
    disk = SimulatedDisk()

    store = new_store(disk)
    recovered = store.recover()

    assert (recovered.end_offset, recovered.records, recovered.damages, recovered.torn) == (0, 0, [], None)
    assert disk.read(ROOT / "abort") is not None


def test_a_clean_stop_leaves_no_abort_file_and_a_kill_leaves_one() -> None:
    assert stopped(draft()).read(ROOT / "abort") is None
    assert killed(draft()).read(ROOT / "abort") is not None


def test_the_abort_file_is_durable_before_anything_else_changes() -> None:
    disk = stopped(*[keyed(number) for number in range(3)])
    # A torn end, so that recovery changes something.
    disk.overwrite(FIRST, disk.content(FIRST).index(b"body 2"), b"BODY")
    before = contents(disk)
    for stop_after in range(100):
        left = disk.after_kill()
        left.stop_after = stop_after
        try:
            opened(left)
        except Stopped:
            pass
        else:
            break
        for image in left.after_power_cut(seed=stop_after):
            assert image.read(ROOT / "abort") is not None or contents(image) == before
    assert stop_after > 3


def contents(disk: SimulatedDisk) -> list[bytes]:
    return [disk.content(LOG / name) for name in disk.names(LOG)]


@pytest.mark.parametrize("make", [stopped, killed])
def test_all_messages_are_read_after_a_stop_or_a_kill(make: Make) -> None:
    appends = [keyed(number) for number in range(5)]
    disk = make(*appends)

    store = new_store(disk)
    recovered = store.recover()

    assert recovered.records == 5
    assert bodies(store) == [0, 1, 2, 3, 4]
    assert found(store) == [number * len(appends[0].records) for number in range(5)]
    assert put(store, keyed(5))[0].queue_offset == 5


def test_topics_with_inner_batches_are_logged_at_startup(caplog: pytest.LogCaptureFixture) -> None:
    disk = stopped(keyed(0))
    new_store(disk).recover()
    assert "BatchCQ" not in caplog.text
    for number in range(12):
        disk.make_directory(ROOT / "batchconsumequeue" / f"packed-{number:02d}" / "0")

    new_store(disk).recover()

    (line,) = [line for line in caplog.messages if "BatchCQ" in line]
    assert line.startswith("12 topics have queue.type=BatchCQ, which is not supported and cannot be consumed here: ")
    assert "packed-00, packed-01, " in line
    assert "packed-09, ...; consume them with the broker that wrote them" in line


@pytest.mark.parametrize("make", [stopped, killed])
def test_a_log_torn_in_its_last_record_is_truncated_durably_and_logged(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    size = len(keyed(0).records)
    last = 2 * size
    for cut in range(last + 1, last + size, 7):
        disk = make(*[keyed(number) for number in range(3)])
        rest = disk.content(FIRST)[last:cut]
        disk.overwrite(FIRST, cut, bytes(size))
        caplog.clear()

        store = new_store(disk)
        recovered = store.recover()

        assert recovered.end_offset == last
        if any(rest):
            assert recovered.torn is not None
            assert f"truncated the commit log at {last}" in caplog.text
        assert (bodies(store), found(store)) == ([0, 1], [0, size])
        for left in disk.after_power_cut():
            assert not any(left.content(FIRST)[last:])
        assert put(store, keyed(7))[0].queue_offset == 2
        assert bodies(store) == [0, 1, 7]


@pytest.mark.parametrize("make", [stopped, killed])
@pytest.mark.parametrize("damaged", range(4))
def test_damage_in_the_middle_is_neither_served_nor_truncated(
    make: Make, damaged: int, caplog: pytest.LogCaptureFixture
) -> None:
    appends = [keyed(number) for number in range(5)]
    disk = make(*appends)
    size = len(appends[0].records)
    at = disk.content(FIRST).index(b"body %d" % damaged)
    disk.overwrite(FIRST, at, b"BODY")
    content = disk.content(FIRST)

    for _ in range(3):
        store = new_store(disk)
        recovered = store.recover()

        others = [number for number in range(5) if number != damaged]
        assert [damage[:2] for damage in recovered.damages] == [(damaged * size, damaged * size + size)]
        assert "no record from" in caplog.text
        assert disk.content(FIRST) == content
        assert bodies(store) == others
        assert [offset for offset, _ in numbered_records(store, "orders", 0)] == others
        assert found(store) == [number * size for number in others]
        got = store.reader.get("orders", 0, damaged, count_max=1)
        assert got.status in (GetStatus.FOUND, GetStatus.MESSAGE_WAS_REMOVING, GetStatus.NO_MATCHED_MESSAGE)
        assert not any(b"BODY" in data for data in got.records)
        assert store.queues.find("orders", 0).max_offset == 5
        run(store.close())


def test_a_flipped_queue_offset_costs_only_one_message() -> None:
    appends = [keyed(number) for number in range(6)]
    size = len(appends[0].records)
    for byte in range(8):
        disk = killed(*[keyed(number) for number in range(6)])
        disk.overwrite(FIRST, 3 * size + 20 + byte, b"\x7b")

        store = opened(disk)

        assert [number for number in bodies(store) if number != 3] == [0, 1, 2, 4, 5]


def test_the_index_is_truncated_with_the_log() -> None:
    disk = stopped(*[keyed(number) for number in range(6)])
    size = len(keyed(0).records)
    disk.overwrite(FIRST, 4 * size, bytes(2 * size))

    store = opened(disk)

    assert store.index is not None
    assert found(store) == [number * size for number in range(4)]
    assert store.index.end_physical_offset == 3 * size


def test_queues_are_truncated_with_the_log_and_continue_there() -> None:
    disk = stopped(*[draft_of_size(900) for _ in range(20)])
    for name in disk.names(LOG)[3:]:
        disk.remove(LOG / name)

    store = opened(disk)

    assert store.queues.find("t", 0).max_offset == 12
    assert put(store, draft_of_size(900))[0].queue_offset == 12


def test_removed_queues_are_rebuilt() -> None:
    disk = stopped(*[draft_of_size(900) for _ in range(30)])
    path = ROOT / "consumequeue" / "t" / "0"
    for name in disk.names(path):
        disk.remove(path / name)
    disk.root.names["store"].names["consumequeue"].names.clear()  # type: ignore[union-attr]

    store = opened(disk)

    assert len(all_records(store, "t")) == 30


def test_a_removed_index_is_rebuilt_after_a_kill() -> None:
    disk = killed(*[keyed(number) for number in range(6)])
    for name in disk.names(ROOT / "index"):
        disk.remove(ROOT / "index" / name)

    store = opened(disk)

    assert len(found(store)) == 6


def test_a_log_without_files_empties_the_queues() -> None:
    disk = stopped(*[keyed(number) for number in range(6)])
    disk.remove(FIRST)

    store = opened(disk)

    assert all_records(store) == []
    assert found(store) == []
    assert put(store, keyed(0))[0].queue_offset == 0


def test_after_a_kill_reading_begins_at_the_checkpoint() -> None:
    disk = SimulatedDisk()
    clock = StillClock()
    store = opened(disk, clock=clock)
    for _ in range(6):
        put(store, draft_of_size(4000))
        clock.move(60)
    run(store.flush_behind.flush())
    put(store, draft_of_size(4000))

    again = new_store(disk.after_kill())
    recovered = again.recover()

    # The last record is not durable; the file before it may have the checkpoint's time, so it is read, too.
    assert recovered.records <= 3
    assert len(all_records(again, "t")) == 7


def test_unsynced_records_of_a_killed_process_are_durable_before_they_are_served() -> None:
    """They are still in the page cache when the store is reopened; then the power fails."""
    disk = SimulatedDisk()
    put(opened(disk), keyed(0), keyed(1))

    store = opened(disk)
    assert bodies(store) == [0, 1]

    for left in disk.after_power_cut():
        assert bodies(opened(left)) == [0, 1]


def test_a_partly_written_entry_does_not_hide_the_entries_before_it() -> None:
    disk = SimulatedDisk()
    clock = StillClock()
    store = opened(disk, clock=clock)
    for number in range(16):
        put(store, draft_of_size(4000))
        clock.move(60)
        if number == 7:
            run(store.flush_behind.flush())
    for queue in store.queues:
        queue.flush()
    left = disk.after_kill()
    path = ROOT / "consumequeue" / "t" / "0" / f"{160:020d}"
    left.overwrite(path, 0, struct.pack(">qiq", 16, 4000, 0))

    assert len(all_records(opened(left), "t")) == 16


def test_a_store_without_room_for_queues_opens_and_serves_reads() -> None:
    disk = killed(*[draft_of_size(900) for _ in range(20)])
    disk.fail("write", errno.ENOSPC, inside="consumequeue")

    store = opened(disk)

    assert len(all_records(store, "t")) == 20
    disk.heal()
    run(store.close())
    assert len(all_records(opened(disk), "t")) == 20


def test_the_checkpoint_covers_only_durable_records() -> None:
    """Entries and records of the first minutes are synced; later syncs of the log fail."""
    disk = SimulatedDisk()
    clock = StillClock()
    store = opened(disk, clock=clock)
    put(store, draft_of_size(4000))
    run(store.flush_behind.flush())
    first = store.checkpoint.min_timestamp
    clock.move(600)
    put(store, draft_of_size(4000))
    disk.fail("sync", errno.EIO, inside="commitlog", count=1)

    run(store.flush_behind.flush())

    assert store.checkpoint.min_timestamp == first


def test_files_of_a_wrong_size_are_refused_with_the_reason() -> None:
    disk = stopped(draft())

    with pytest.raises(StoreDamaged, match="has 4096 bytes, expected 8192"):
        opened(disk, config(mapped_file_size_commit_log=8192))


def test_a_damaged_range_is_not_reported_as_a_torn_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    disk = killed(*[keyed(number) for number in range(3)])
    disk.overwrite(FIRST, 8, b"\xff\xff")

    store = opened(disk)
    run(store.close())

    assert "truncated the commit log" not in caplog.text


# Log checksums


def test_after_a_clean_stop_checksummed_records_are_not_read_one_by_one() -> None:
    disk = stopped(*[keyed(number) for number in range(5)])

    store = new_store(disk)
    recovered = store.recover()

    assert (recovered.records, recovered.checksummed) == (5, 5)
    assert bodies(store) == [0, 1, 2, 3, 4]
    assert len(found(store)) == 5
    put(store, keyed(5))
    run(store.close())
    again = new_store(disk)
    assert again.recover().checksummed == 6
    assert bodies(again) == [0, 1, 2, 3, 4, 5]


def test_after_a_kill_only_unflushed_records_are_read_one_by_one() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *[keyed(number) for number in range(6)])
    run(store.flush_behind.flush())
    put(store, keyed(6), keyed(7))

    again = new_store(disk.after_kill())
    recovered = again.recover()

    assert (recovered.records, recovered.checksummed) == (8, 6)
    assert bodies(again) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert len(found(again)) == 8


def test_the_checkpoint_keeps_its_times_if_nothing_was_put() -> None:
    disk = stopped(*[keyed(number) for number in range(5)])
    before = opened(disk.after_kill()).checkpoint.timestamps

    store = opened(disk)
    run(store.close())

    assert opened(disk).checkpoint.timestamps == before
    assert before[0] > 0


def test_a_flipped_byte_under_a_checksum_makes_recovery_read_the_records() -> None:
    end = sum(len(keyed(number).records) for number in range(3))
    for at in range(end):
        disk = stopped(*[keyed(number) for number in range(3)])
        disk.overwrite(FIRST, at, bytes([disk.content(FIRST)[at] ^ 0x04]))

        recovered = new_store(disk).recover()

        assert recovered.checksummed == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_checksums_are_ignored_if_java_has_written_the_checkpoint(is_clean: bool) -> None:
    disk = stopped(*[keyed(number) for number in range(5)])
    if not is_clean:
        disk.write(ROOT / "abort", b"")
    disk.overwrite(ROOT / "checkpoint", 8, struct.pack(">q", 1))

    store = new_store(disk)
    recovered = store.recover()

    assert (recovered.records, recovered.checksummed) == (5, 0)
    assert bodies(store) == [0, 1, 2, 3, 4]


def test_records_that_java_appended_after_the_checksums_are_read() -> None:
    """Java leaves our checksums in the checkpoint."""
    disk = stopped(*[keyed(number) for number in range(5)])
    checkpoint = disk.content(ROOT / "checkpoint")
    store = opened(disk)
    put(store, keyed(5))
    run(store.close())
    disk.overwrite(ROOT / "checkpoint", 0, checkpoint)

    store = new_store(disk)
    recovered = store.recover()

    assert recovered.records == 6
    assert bodies(store) == [0, 1, 2, 3, 4, 5]
    assert len(found(store)) == 6


def test_a_removed_queue_is_rebuilt_despite_valid_checksums() -> None:
    disk = stopped(keyed(0), draft(b"body 1", "other"), keyed(2))
    disk.root.names["store"].names["consumequeue"].names.pop("other")  # type: ignore[union-attr]

    store = opened(disk)

    assert len(all_records(store, "other")) == 1


def test_a_removed_index_is_rebuilt_despite_valid_checksums() -> None:
    disk = stopped(*[keyed(number) for number in range(6)])
    for name in disk.names(ROOT / "index"):
        disk.remove(ROOT / "index" / name)

    assert len(found(opened(disk))) == 6


@pytest.mark.parametrize("is_kept", [True, False])
def test_an_index_that_is_enabled_later_covers_the_last_files(is_kept: bool) -> None:
    disk = SimulatedDisk()
    store = opened(disk, config(message_index_enable=is_kept))
    put(store, *[keyed(number) for number in range(6)])
    run(store.close())

    assert len(found(opened(disk))) == 6


def test_after_the_clock_was_ahead_a_kill_leaves_no_message_without_an_entry() -> None:
    clock, disk = StillClock(), SimulatedDisk()
    store = opened(disk, clock=clock)
    clock.step(10 * 365 * 86_400)
    put(store, draft(b"0"))
    # The checkpoint now has a time in the future.
    run(store.flush_behind.flush())
    clock.step(-10 * 365 * 86_400)
    for number in range(1, 100):
        put(store, draft(b"%d" % number))
    assert len(disk.names(LOG)) > 2

    again = opened(disk.after_kill(), clock=clock)

    assert [peek(record).queue_offset for record in all_records(again)] == list(range(100))


# Exact limits


def without_checksums(disk: SimulatedDisk) -> SimulatedDisk:
    """Erase our log checksums, which a checkpoint written by Java does not have."""
    disk.overwrite(ROOT / "checkpoint", 1024, bytes(512))
    return disk


@pytest.mark.parametrize(("seconds", "start"), [(2, 0), (3, SEGMENT_SIZE)])
def test_after_a_kill_reading_begins_with_a_record_three_seconds_before_the_checkpoint(
    seconds: int, start: int
) -> None:
    disk, clock = SimulatedDisk(), StillClock()
    store = opened(disk, clock=clock)
    for pause in (60, seconds, 0):
        put(store, draft_of_size(4000))
        clock.move(pause)
    run(store.flush_behind.flush())

    recovered = new_store(without_checksums(disk.after_kill())).recover()

    assert recovered.start_offset == start


def test_after_a_kill_reading_does_not_begin_with_a_record_without_a_time() -> None:
    disk, clock = SimulatedDisk(), StillClock()
    store = opened(disk, clock=clock)
    for pause in (60, 60, 0):
        put(store, draft_of_size(4000))
        clock.move(pause)
    run(store.flush_behind.flush())
    left = without_checksums(disk.after_kill())
    assert new_store(left.after_kill()).recover().start_offset == SEGMENT_SIZE

    # The store timestamp of the first record in the second file.
    left.overwrite(LOG / f"{SEGMENT_SIZE:020d}", 56, bytes(8))

    assert new_store(left).recover().start_offset == 0


def test_after_the_clock_was_ahead_a_kill_leaves_no_queue_without_its_only_entry() -> None:
    clock, disk = StillClock(), SimulatedDisk()
    store = opened(disk, clock=clock)
    clock.step(10 * 365 * 86_400)
    put(store, draft_of_size(4000))
    # The checkpoint now has a time in the future.
    run(store.flush_behind.flush())
    clock.step(-10 * 365 * 86_400)
    # No queue has a gap that would make recovery read the whole log.
    put(store, draft_of_size(4000, "u"), draft_of_size(4000, "v"))

    again = opened(disk.after_kill(), clock=clock)

    assert len(all_records(again, "u")) == 1


def test_after_a_kill_entries_of_unflushed_records_do_not_invalidate_the_checksums() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *[keyed(number) for number in range(6)])
    run(store.flush_behind.flush())
    put(store, keyed(6), keyed(7))
    store.queues.flush()

    again = new_store(disk.after_kill())
    recovered = again.recover()

    assert (recovered.records, recovered.checksummed) == (8, 6)
    assert bodies(again) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_damage_right_after_the_checksummed_records_does_not_make_recovery_read_them() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *[keyed(number) for number in range(6)])
    run(store.flush_behind.flush())
    put(store, *[keyed(number) for number in range(6, 9)])
    left = disk.after_kill()
    left.overwrite(FIRST, left.content(FIRST).index(b"body 6"), b"BODY")

    again = new_store(left)
    recovered = again.recover()

    assert (recovered.records, recovered.checksummed) == (8, 6)
    assert bodies(again) == [0, 1, 2, 3, 4, 5, 7, 8]


def test_records_without_keys_are_checksummed_although_there_is_no_index_file() -> None:
    disk = stopped(*[draft(b"body %d" % number) for number in range(5)])
    assert disk.names(ROOT / "index") == []

    assert new_store(disk).recover().checksummed == 5


def test_an_entry_of_the_first_record_in_the_log_is_compared_with_it() -> None:
    disk, clock = SimulatedDisk(), StillClock()
    store = opened(disk, clock=clock)
    for topic in ("u", "t", "t"):
        put(store, draft_of_size(4000, topic))
        clock.move(60)
    run(store.flush_behind.flush())
    put(store, draft_of_size(4000, "u"))
    left = disk.after_kill()
    left.remove(ROOT / "derived")
    left.overwrite(ROOT / "consumequeue" / "u" / "0" / f"{0:020d}", 0, struct.pack(">qiq", 0, 3999, 0))

    queue = opened(left).queues.find("u", 0)

    assert [(entry.physical_offset, entry.size) for entry in queue.entries(0, 10)] == [
        (0, 4000),
        (3 * SEGMENT_SIZE, 4000),
    ]


def test_entries_of_deleted_records_are_not_missing(caplog: pytest.LogCaptureFixture) -> None:
    disk = stopped(*[draft_of_size(4000) for _ in range(3)])
    disk.remove(FIRST)
    disk.remove(ROOT / "derived")
    disk.root.names["store"].names["consumequeue"].names.clear()  # type: ignore[union-attr]

    store = new_store(disk)
    recovered = store.recover()

    assert recovered.start_offset == SEGMENT_SIZE
    assert [offset for offset, _ in numbered_records(store, "t", 0)] == [1, 2]
    assert "entries are missing" not in caplog.text


def test_a_removed_index_of_many_log_files_is_rebuilt_from_the_first() -> None:
    disk = stopped(*[keyed(number % 10) for number in range(200)])
    assert len(disk.names(LOG)) > FILES_READ
    for name in disk.names(ROOT / "index"):
        disk.remove(ROOT / "index" / name)

    assert len(found(opened(disk))) == 200


def test_without_room_for_the_index_recovery_adds_all_queue_entries() -> None:
    disk = killed(*[keyed(number % 10) for number in range(200)])
    assert len(disk.names(LOG)) > 2
    for name in disk.names(ROOT / "index"):
        disk.remove(ROOT / "index" / name)
    disk.fail("allocate", errno.ENOSPC, inside="index")

    store = new_store(disk)
    recovered = store.recover()

    assert recovered.index_failure is not None
    assert len(all_records(store)) == 200
