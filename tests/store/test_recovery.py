"""What is found when a store is opened."""

import errno
import logging
import struct
from collections.abc import Callable

import pytest

from kerolox.store.errors import StoreDamaged
from kerolox.store.log.commit_log import Draft
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import (
    LOG,
    ROOT,
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


def keyed(number: int) -> Draft:
    return draft(b"body %d" % number, KEYS=f"k{number} all")


def stopped(*drafts: Draft) -> SimulatedDisk:
    """A disk on which these were stored, and the store was closed."""
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *drafts)
    run(store.close())
    return disk


def killed(*drafts: Draft) -> SimulatedDisk:
    disk = SimulatedDisk()
    put(opened(disk), *drafts)
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
    # A tail to be cut, so that there is something to change.
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
def test_everything_is_there_after_a_stop_of_either_kind(make: Make) -> None:
    drafts = [keyed(number) for number in range(5)]
    disk = make(*drafts)

    store = new_store(disk)
    recovered = store.recover()

    assert recovered.records == 5
    assert bodies(store) == [0, 1, 2, 3, 4]
    assert found(store) == [number * len(drafts[0].records) for number in range(5)]
    assert put(store, keyed(5))[0].queue_offset == 5


def test_topics_with_batches_in_one_record_are_named_when_a_store_is_opened(caplog: pytest.LogCaptureFixture) -> None:
    disk = stopped(keyed(0))
    new_store(disk).recover()
    assert "BatchCQ" not in caplog.text
    for number in range(12):
        disk.make_directory(ROOT / "batchconsumequeue" / f"packed-{number:02d}" / "0")

    new_store(disk).recover()

    (line,) = [line for line in caplog.messages if "BatchCQ" in line]
    assert line.startswith("12 topics have batches in one record (queue.type=BatchCQ), which nobody can consume here: ")
    assert "packed-00, packed-01, " in line
    assert "packed-09, ...; consume them where they were written" in line


@pytest.mark.parametrize("make", [stopped, killed])
def test_a_log_cut_in_its_last_record_is_cut_durably_and_it_is_said(
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
            assert f"cut the commit log at {last}" in caplog.text
        assert (bodies(store), found(store)) == ([0, 1], [0, size])
        for left in disk.after_power_cut():
            assert not any(left.content(FIRST)[last:])
        assert put(store, keyed(7))[0].queue_offset == 2
        assert bodies(store) == [0, 1, 7]


@pytest.mark.parametrize("make", [stopped, killed])
@pytest.mark.parametrize("damaged", range(4))
def test_damage_in_the_middle_is_neither_served_nor_cut(
    make: Make, damaged: int, caplog: pytest.LogCaptureFixture
) -> None:
    drafts = [keyed(number) for number in range(5)]
    disk = make(*drafts)
    size = len(drafts[0].records)
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


def test_a_flipped_queue_offset_costs_one_message_and_not_the_queue() -> None:
    drafts = [keyed(number) for number in range(6)]
    size = len(drafts[0].records)
    for byte in range(8):
        disk = killed(*[keyed(number) for number in range(6)])
        disk.overwrite(FIRST, 3 * size + 20 + byte, b"\x7b")

        store = opened(disk)

        assert [number for number in bodies(store) if number != 3] == [0, 1, 2, 4, 5]


def test_the_index_is_cut_with_the_log() -> None:
    disk = stopped(*[keyed(number) for number in range(6)])
    size = len(keyed(0).records)
    disk.overwrite(FIRST, 4 * size, bytes(2 * size))

    store = opened(disk)

    assert store.index is not None
    assert found(store) == [number * size for number in range(4)]
    assert store.index.end_physical_offset == 3 * size


def test_queues_are_cut_with_the_log_and_count_on_from_there() -> None:
    disk = stopped(*[draft_of_size(900) for _ in range(20)])
    for name in disk.names(LOG)[3:]:
        disk.remove(LOG / name)

    store = opened(disk)

    assert store.queues.find("t", 0).max_offset == 12
    assert put(store, draft_of_size(900))[0].queue_offset == 12


def test_queues_that_were_removed_are_made_again() -> None:
    disk = stopped(*[draft_of_size(900) for _ in range(30)])
    place = ROOT / "consumequeue" / "t" / "0"
    for name in disk.names(place):
        disk.remove(place / name)
    disk.root.names["store"].names["consumequeue"].names.clear()  # type: ignore[union-attr]

    store = opened(disk)

    assert len(all_records(store, "t")) == 30


def test_an_index_that_was_removed_is_made_again_after_a_kill() -> None:
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


def test_after_a_kill_reading_begins_where_the_checkpoint_says() -> None:
    disk = SimulatedDisk()
    clock = StillClock()
    store = opened(disk, clock=clock)
    for _ in range(6):
        put(store, draft_of_size(4000))
        clock.move(60)
    run(store.behind.flush())
    put(store, draft_of_size(4000))

    again = new_store(disk.after_kill())
    recovered = again.recover()

    # All but the last is durable; it and the last file before it, whose time may be that of the checkpoint.
    assert recovered.records <= 3
    assert len(all_records(again, "t")) == 7


def test_what_a_killed_process_had_not_synced_is_durable_once_it_is_served() -> None:
    """The system still had it in memory when the process was started again; then the power goes."""
    disk = SimulatedDisk()
    put(opened(disk), keyed(0), keyed(1))

    store = opened(disk)
    assert bodies(store) == [0, 1]

    for left in disk.after_power_cut():
        assert bodies(opened(left)) == [0, 1]


def test_an_entry_of_which_a_part_never_arrived_does_not_hide_what_comes_before_it() -> None:
    disk = SimulatedDisk()
    clock = StillClock()
    store = opened(disk, clock=clock)
    for number in range(16):
        put(store, draft_of_size(4000))
        clock.move(60)
        if number == 7:
            run(store.behind.flush())
    for queue in store.queues:
        queue.flush()
    left = disk.after_kill()
    place = ROOT / "consumequeue" / "t" / "0" / f"{160:020d}"
    left.overwrite(place, 0, struct.pack(">qiq", 16, 4000, 0))

    assert len(all_records(opened(left), "t")) == 16


def test_a_disk_without_room_for_queues_can_be_opened_and_read() -> None:
    disk = killed(*[draft_of_size(900) for _ in range(20)])
    disk.fail("write", errno.ENOSPC, inside="consumequeue")

    store = opened(disk)

    assert len(all_records(store, "t")) == 20
    disk.heal()
    run(store.close())
    assert len(all_records(opened(disk), "t")) == 20


def test_the_checkpoint_never_tells_of_what_is_not_durable() -> None:
    """Entries and records of the first minutes are synced; then the log is not."""
    disk = SimulatedDisk()
    clock = StillClock()
    store = opened(disk, clock=clock)
    put(store, draft_of_size(4000))
    run(store.behind.flush())
    first = store.checkpoint.min_timestamp
    clock.move(600)
    put(store, draft_of_size(4000))
    disk.fail("sync", errno.EIO, inside="commitlog", count=1)

    run(store.behind.flush())

    assert store.checkpoint.min_timestamp == first


def test_files_of_another_size_are_refused_with_the_reason() -> None:
    disk = stopped(draft())

    with pytest.raises(StoreDamaged, match="has 4096 bytes, expected 8192"):
        opened(disk, config(mapped_file_size_commit_log=8192))


def test_what_was_quarantined_is_never_told_to_be_torn(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    disk = killed(*[keyed(number) for number in range(3)])
    disk.overwrite(FIRST, 8, b"\xff\xff")

    store = opened(disk)
    run(store.close())

    assert "cut the commit log" not in caplog.text


# Under a seal


def test_after_a_clean_stop_what_is_sealed_is_not_read_one_by_one() -> None:
    disk = stopped(*[keyed(number) for number in range(5)])

    store = new_store(disk)
    recovered = store.recover()

    assert (recovered.records, recovered.sealed) == (5, 5)
    assert bodies(store) == [0, 1, 2, 3, 4]
    assert len(found(store)) == 5
    put(store, keyed(5))
    run(store.close())
    again = new_store(disk)
    assert again.recover().sealed == 6
    assert bodies(again) == [0, 1, 2, 3, 4, 5]


def test_after_a_kill_only_what_was_not_yet_flushed_is_read_one_by_one() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *[keyed(number) for number in range(6)])
    run(store.behind.flush())
    put(store, keyed(6), keyed(7))

    again = new_store(disk.after_kill())
    recovered = again.recover()

    assert (recovered.records, recovered.sealed) == (8, 6)
    assert bodies(again) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert len(found(again)) == 8


def test_the_times_in_the_checkpoint_stay_when_nothing_was_put() -> None:
    disk = stopped(*[keyed(number) for number in range(5)])
    before = opened(disk.after_kill()).checkpoint.timestamps

    store = opened(disk)
    run(store.close())

    assert opened(disk).checkpoint.timestamps == before
    assert before[0] > 0


def test_no_byte_under_a_seal_can_be_flipped_without_being_read_one_by_one() -> None:
    end = sum(len(keyed(number).records) for number in range(3))
    for at in range(end):
        disk = stopped(*[keyed(number) for number in range(3)])
        disk.overwrite(FIRST, at, bytes([disk.content(FIRST)[at] ^ 0x04]))

        recovered = new_store(disk).recover()

        assert recovered.sealed == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_seal_counts_for_nothing_when_another_has_written_the_checkpoint(is_clean: bool) -> None:
    disk = stopped(*[keyed(number) for number in range(5)])
    if not is_clean:
        disk.write(ROOT / "abort", b"")
    disk.overwrite(ROOT / "checkpoint", 8, struct.pack(">q", 1))

    store = new_store(disk)
    recovered = store.recover()

    assert (recovered.records, recovered.sealed) == (5, 0)
    assert bodies(store) == [0, 1, 2, 3, 4]


def test_what_another_has_appended_after_the_seal_is_read() -> None:
    """Java leaves the seal where it is."""
    disk = stopped(*[keyed(number) for number in range(5)])
    sealed = disk.content(ROOT / "checkpoint")
    store = opened(disk)
    put(store, keyed(5))
    run(store.close())
    disk.overwrite(ROOT / "checkpoint", 0, sealed)

    store = new_store(disk)
    recovered = store.recover()

    assert recovered.records == 6
    assert bodies(store) == [0, 1, 2, 3, 4, 5]
    assert len(found(store)) == 6


def test_one_queue_that_was_removed_is_made_again_in_spite_of_the_seal() -> None:
    disk = stopped(keyed(0), draft(b"body 1", "other"), keyed(2))
    disk.root.names["store"].names["consumequeue"].names.pop("other")  # type: ignore[union-attr]

    store = opened(disk)

    assert len(all_records(store, "other")) == 1


def test_an_index_that_was_removed_is_made_again_in_spite_of_the_seal() -> None:
    disk = stopped(*[keyed(number) for number in range(6)])
    for name in disk.names(ROOT / "index"):
        disk.remove(ROOT / "index" / name)

    assert len(found(opened(disk))) == 6


@pytest.mark.parametrize("is_kept", [True, False])
def test_an_index_that_is_kept_from_now_on_has_what_the_last_files_have(is_kept: bool) -> None:
    disk = SimulatedDisk()
    store = opened(disk, config(message_index_enable=is_kept))
    put(store, *[keyed(number) for number in range(6)])
    run(store.close())

    assert len(found(opened(disk))) == 6
