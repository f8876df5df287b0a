"""KeyIndex: putting, finding, flushing, deleting, and recovery after a crash."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store.errors import SyncFailed
from kerolox.store.index.index_file import IndexFile
from kerolox.store.index.key_index import KeyBatch, KeyIndex
from kerolox.store.index.layout import ENTRY, HEADER, IndexShape
from kerolox.store.log.segments import OpenFiles
from tests.store.disks import Stopped
from tests.store.fragile_disk import FragileDisk
from tests.store.index_cases import (
    BEGIN,
    GOLDEN_PUTS,
    GOLDEN_SHAPE,
    TOPIC,
    Put,
    files_of,
    new_index,
    put_all,
    random_puts,
)

DIRECTORY = Path("/store/index")
SHAPE = IndexShape(slots=11, entries=20)
JAVA = [bytes.fromhex(line) for line in (Path(__file__).parents[2] / "golden" / "index.hex").read_text().split()]


def opened(disk: FragileDisk, checkpoint_timestamp: int | None = None, shape: IndexShape = SHAPE) -> KeyIndex:
    index = new_index(disk, DIRECTORY, shape)
    index.load(checkpoint_timestamp)
    return index


def filled(disk: FragileDisk, puts: list[Put]) -> KeyIndex:
    index = opened(disk)
    put_all(index, puts)
    return index


def assert_holds(index: KeyIndex, puts: list[Put]) -> None:
    """Assert that each key finds exactly its records, newest first."""
    for key in {key for put in puts for key in put.keys}:
        expected = [put.physical_offset for put in reversed(puts) for other in put.keys if other == key]
        others = [put.physical_offset for put in puts if key not in put.keys]
        found = index.query(TOPIC, key, 10_000)
        assert [offset for offset in found if offset not in others] == expected, key


@pytest.mark.parametrize("at_once", [1, 2, 5, 1000])
def test_putting_records_together_equals_putting_them_one_by_one(tmp_path: Path, at_once: int) -> None:
    puts = random_puts(200, seed=at_once)
    index = new_index(RealDisk(), tmp_path / "index", SHAPE, pending_max=100)
    index.load()
    for first in range(0, len(puts), at_once):
        # Putting them again changes nothing.
        for _ in range(2):
            some = KeyBatch()
            for put in puts[first : first + at_once]:
                some.add(TOPIC, put.keys, put.physical_offset, put.store_timestamp)
            index.put_all(some)
    paths = index.paths
    index.close()

    assert [path.read_bytes() for path in paths] == files_of(tmp_path / "other", SHAPE, puts)


# As in Java


def test_the_files_have_the_bytes_that_java_writes(tmp_path: Path) -> None:
    assert files_of(tmp_path / "index", GOLDEN_SHAPE, GOLDEN_PUTS) == JAVA


def test_entries_written_by_java_are_found() -> None:
    disk = FragileDisk({DIRECTORY / f"2026111521595145{number}": data for number, data in enumerate(JAVA)})
    index = opened(disk, shape=GOLDEN_SHAPE)

    assert_holds(index, list(GOLDEN_PUTS))
    assert index.end_physical_offset == 2**40 + 2
    assert index.end_timestamp == BEGIN + 2**33 * 1000 - 5_000


def test_files_are_named_after_local_time() -> None:
    index = filled(FragileDisk(), [Put(0, BEGIN, (b"a",))])

    (path,) = index.paths
    assert len(path.name) == 17
    assert path.name.endswith("000")
    assert path.name.startswith("202611")


def test_a_file_created_in_the_same_millisecond_gets_the_next_name() -> None:
    index = filled(FragileDisk(), [Put(offset, BEGIN, (b"a",)) for offset in range(50)])

    names = [int(path.name) for path in index.paths]
    assert names == [names[0], names[0] + 1, names[0] + 2]


# Putting and finding


def test_a_key_is_found_in_all_files_newest_first() -> None:
    puts = random_puts(200, seed=1)
    index = filled(FragileDisk(), puts)

    assert len(index.paths) > 10
    assert_holds(index, puts)
    assert index.query(TOPIC, b"no such key", 64) == []
    assert index.query("another", b"key-1", 64) == []


def test_at_most_count_max_records_are_found() -> None:
    index = filled(FragileDisk(), [Put(offset, BEGIN, (b"a",)) for offset in range(50)])

    assert index.query(TOPIC, b"a", 25) == list(range(49, 24, -1))


def test_a_time_range_is_found_in_any_file() -> None:
    index = filled(FragileDisk(), [Put(offset, BEGIN + offset * 1000, (b"a",)) for offset in range(50)])

    # As in Java, the first entry of a later file counts its seconds from the end of the previous file.
    assert index.query(TOPIC, b"a", 64, BEGIN + 5_000, BEGIN + 8_000) == [8, 7, 6, 5]
    assert index.query(TOPIC, b"a", 64, BEGIN + 30_000, BEGIN + 33_000) == [33, 32, 31, 30]
    assert index.query(TOPIC, b"a", 64, BEGIN + 60_000, BEGIN + 70_000) == []
    assert index.query(TOPIC, b"a", 64, BEGIN - 10, BEGIN - 1) == []
    assert index.query(TOPIC, b"a", 64, BEGIN + 8_000, BEGIN + 5_000) == []


def test_a_file_that_ends_before_it_begins_is_searched_as_in_java() -> None:
    """The clock was set back by a minute; times before the first entry count as that of the first entry."""
    index = filled(FragileDisk(), [Put(1, BEGIN, (b"a",)), Put(2, BEGIN - 60_000, (b"a",))])

    assert index.query(TOPIC, b"a", 64, BEGIN - 1, BEGIN) == [2, 1]
    assert index.query(TOPIC, b"a", 64, BEGIN, BEGIN) == []
    assert index.query(TOPIC, b"a", 64, BEGIN - 70_000, BEGIN - 50_000) == []


def test_a_record_put_twice_is_indexed_once() -> None:
    puts = random_puts(100, seed=2)
    index = filled(FragileDisk(), puts)

    put_all(index, puts[50:])
    put_all(index, puts[-1:])

    assert_holds(index, puts)


def test_a_key_that_a_record_has_twice_is_indexed_twice_as_in_java() -> None:
    put = Put(5, BEGIN, (b"a", b"a"))
    index = filled(FragileDisk(), [put])

    put_all(index, [put])

    assert index.query(TOPIC, b"a", 64) == [5, 5]


def test_a_record_without_keys_creates_no_file() -> None:
    disk = FragileDisk()

    index = filled(disk, [Put(0, BEGIN, ())])

    assert disk.files == {}
    assert (index.end_physical_offset, index.end_timestamp) == (0, 0)


def test_entries_are_written_when_too_many_are_in_memory() -> None:
    disk = FragileDisk()
    index = new_index(disk, DIRECTORY, IndexShape(11, 1000), pending_max=10)
    puts = [Put(offset, BEGIN, (b"a", b"b")) for offset in range(20)]

    put_all(index, puts)

    (file,) = index._files
    assert len(file.pending) < 12 * ENTRY.size
    assert_holds(index, puts)


def test_a_full_disk_loses_no_entries_and_putting_continues_later() -> None:
    disk = FragileDisk()
    index = new_index(disk, DIRECTORY, SHAPE, pending_max=7)
    puts = [Put(offset, BEGIN, (b"a", b"b", b"c")) for offset in range(30)]
    for number, put in enumerate(puts):
        if number % 3:
            disk.fail("open write allocate truncate", errno.ENOSPC)
        with contextlib.suppress(OSError):
            put_all(index, [put])
        disk.heal()
        put_all(index, [put])

    assert_holds(index, puts)


# Flushing, deleting, cutting


def test_a_flush_returns_the_timestamp_up_to_which_the_index_is_durable() -> None:
    index = filled(FragileDisk(), random_puts(100, seed=3))
    put_all(index, [Put(10**6, BEGIN + 10**6, (b"a",))])

    assert index.flush().run() == BEGIN + 10**6


def test_full_files_release_their_slots_once_they_are_durable() -> None:
    index = filled(FragileDisk(), random_puts(100, seed=3))

    index.flush().run()
    index.flush().run()

    assert [file.is_growing for file in index._files] == [False] * (len(index.paths) - 1) + [True]


LONG = IndexShape(slots=3, entries=30_000)


def hot(disk: FragileDisk, count: int = 20_000) -> KeyIndex:
    """Return an index with one key in many records, a second apart, in one chain."""
    index = opened(disk, shape=LONG)
    for number in range(count):
        index.put(TOPIC, [b"hot"], number * 100, BEGIN + number * 1000)
    return index


def test_a_search_of_a_long_chain_takes_many_steps() -> None:
    index = hot(FragileDisk())
    search = index.search(TOPIC, b"hot", 32, BEGIN, BEGIN + 5000)
    steps = 1
    while search.step():
        steps += 1

    assert search.found == [500, 400, 300, 200, 100, 0]
    assert not search.step()
    assert steps > 20_000 / (4096 / 20)
    for span in ((0, 2**62), (BEGIN + 100_000, BEGIN + 200_000), (0, BEGIN - 1)):
        search = index.search(TOPIC, b"hot", 32, *span)
        while search.step():
            pass
        assert search.found == index.query(TOPIC, b"hot", 32, *span)
    assert index.query(TOPIC, b"hot", 0) == index.query(TOPIC, b"hot", -1) == []


def test_putting_flushing_and_rolling_during_a_search_does_not_affect_it() -> None:
    index = hot(FragileDisk(), 10_000)
    search = index.search(TOPIC, b"hot", 5, BEGIN, BEGIN + 2000)

    number = 10_000
    while search.step():
        for more in range(1000):
            index.put(TOPIC, [b"hot", b"other"], (number * 1000 + more) * 100, BEGIN + 10_000_000)
        index.flush().run()
        number += 1

    assert search.found == [200, 100, 0]
    assert number > 10_040
    assert len(index.paths) > 1


def test_a_search_ends_at_files_deleted_meanwhile() -> None:
    disk = FragileDisk()
    index = hot(disk, 40_000)
    index.flush().run()
    assert len(index.paths) == 2
    search = index.search(TOPIC, b"hot", 5, BEGIN, BEGIN + 2000)
    assert search.step()
    index.put(TOPIC, [b"hot"], 10**9, BEGIN + 10**8)

    index.delete_before(10**9)

    steps = 1
    while search.step():
        steps += 1
    assert (search.found, steps < 100) == ([], True)
    index.close()
    assert disk.open_count == 0


def test_after_a_failed_sync_no_flush_succeeds_and_reading_continues() -> None:
    disk = FragileDisk()
    index = opened(disk)
    index.put(TOPIC, [b"k"], 100, BEGIN)
    disk.fail("sync", errno.EIO, count=1, inside="index")
    flush = index.flush()

    for _ in range(2):
        # Running the failed flush again fails, too.
        for failing in (flush, index.flush()):
            with pytest.raises(SyncFailed):
                failing.run()
        index.put(TOPIC, [b"k"], 200, BEGIN)

    assert index.query(TOPIC, b"k", 10) == [200, 100]
    with pytest.raises(SyncFailed):
        index.close()
    assert disk.open_count == 0


def test_an_idle_index_is_not_synced() -> None:
    disk = FragileDisk()
    index = filled(disk, random_puts(100, seed=3))
    index.flush().run()
    disk.log.clear()

    index.flush().run()

    assert disk.log == []


def test_files_whose_records_have_expired_are_deleted_but_never_the_last() -> None:
    disk = FragileDisk()
    puts = [Put(offset * 100, BEGIN, (b"a",)) for offset in range(50)]
    index = filled(disk, puts)

    # The first file has the records from 0 to 1800, the second from 1900 to 3700.
    assert index.delete_before(1800) == 0
    assert index.delete_before(1801) == 1
    assert_holds(index, puts[19:])
    assert index.delete_before(10**9) == 1
    assert len(disk.files) == len(index.paths) == 1


def test_a_file_that_cannot_be_removed_does_not_prevent_removing_others() -> None:
    disk = FragileDisk()
    index = filled(disk, random_puts(200, seed=3))
    count = len(index.paths)
    assert count > 3
    opened_before = disk.open_count
    disk.fail("remove", errno.EIO, count=1)

    with pytest.raises(OSError, match="Input/output"):
        index.delete_before(10**9)

    assert len(index.paths) == 1
    assert len(disk.files) == 2
    assert disk.open_count == opened_before - count + 1


@pytest.mark.parametrize("physical_offset", [0, 1, 700, 4000, 4321, 25_000, 10**9])
def test_a_cut_index_has_no_record_at_or_after_the_offset_and_can_grow(physical_offset: int) -> None:
    disk = FragileDisk()
    puts = random_puts(200, seed=4)
    index = filled(disk, puts)
    kept = [put for put in puts if put.physical_offset < physical_offset]

    index.cut(physical_offset)

    for left in (disk.files, *disk.left_by_power_cut()):
        assert_holds(opened(FragileDisk(left), 0), kept)
    more = random_puts(50, seed=5, start_offset=physical_offset)
    put_all(index, more)
    assert_holds(index, kept + more)


def test_after_a_full_file_became_the_last_one_a_new_file_is_created() -> None:
    puts = [Put(offset, BEGIN, (b"a",)) for offset in range(50)]
    index = filled(FragileDisk(), puts)
    index.flush().run()
    index.flush().run()

    index.cut(19)
    put_all(index, puts[19:])

    assert_holds(index, puts)


# Loading


def test_a_reopened_index_has_its_entries_and_can_grow() -> None:
    disk = FragileDisk()
    puts = random_puts(300, seed=6)
    filled(disk, puts[:120]).close()
    index = opened(disk)
    assert_holds(index, puts[:120])

    put_all(index, puts[120:])
    index.close()

    assert_holds(opened(disk), puts)


def test_other_files_in_the_directory_are_ignored() -> None:
    disk = FragileDisk({DIRECTORY / "README": b"", DIRECTORY / "2026111521595145x": b""})

    assert opened(disk).paths == []
    assert len(disk.files) == 2


@pytest.mark.parametrize("content", [b"", bytes(10), bytes(SHAPE.file_size)])
def test_a_file_that_was_never_finished_is_removed(content: bytes) -> None:
    disk = FragileDisk({DIRECTORY / "20261115215951456": content})

    index = opened(disk)

    assert (index.paths, disk.files) == ([], {})


def test_files_of_another_shape_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    disk = FragileDisk()
    filled(disk, random_puts(50, seed=1)).close()

    index = opened(disk, shape=IndexShape(11, 21))

    assert (index.paths, disk.files) == ([], {})
    assert "maxIndexNum=21 make 504; it is rebuilt from the commit log" in caplog.text


def test_a_damaged_file_and_all_later_ones_are_dropped_and_can_be_rebuilt() -> None:
    disk = FragileDisk()
    puts = random_puts(200, seed=7)
    index = filled(disk, puts)
    index.close()
    names = disk.names(DIRECTORY)
    broken = dict(disk.files)
    broken[DIRECTORY / names[3]] = HEADER.pack(0, 0, 5, 4, 1, 2) + broken[DIRECTORY / names[3]][HEADER.size :]
    disk = FragileDisk(broken)
    index = new_index(disk, DIRECTORY, SHAPE)

    (damage,) = index.load()

    assert names[3] in damage
    assert disk.names(DIRECTORY) == names[:3]
    put_all(index, [put for put in puts if put.physical_offset >= index.end_physical_offset])
    assert_holds(index, puts)


def test_files_that_java_named_out_of_order_are_read_in_order() -> None:
    disk = FragileDisk()
    puts = random_puts(60, seed=8)
    filled(disk, puts).close()
    names = disk.names(DIRECTORY)
    renamed = [DIRECTORY / f"{int(name) + (5000 if number < 2 else 0)}" for number, name in enumerate(names)]
    files = dict(zip(renamed, (disk.files[DIRECTORY / name] for name in names), strict=True))

    index = opened(FragileDisk(files))

    assert index.query(TOPIC, puts[-1].keys[-1], 1) == [puts[-1].physical_offset]
    assert_holds(index, puts)


# After a crash


def run_until_stopped(disk: FragileDisk, puts: list[Put]) -> int:
    """Put and flush until the disk stops; return the timestamp that the checkpoint would have."""
    checkpoint_timestamp = 0
    with contextlib.suppress(Stopped):
        index = new_index(disk, DIRECTORY, SHAPE, pending_max=5)
        index.load()
        for number, put in enumerate(puts):
            put_all(index, [put])
            if number % 13 == 12:
                flush = index.flush()
                # As in a thread, meanwhile:
                put_all(index, puts[number + 1 : number + 3])
                checkpoint_timestamp = flush.run()
            if number == 30:
                index.delete_before(puts[10].physical_offset)
        index.close()
    return checkpoint_timestamp


def operations_needed(puts: list[Put]) -> int:
    disk = FragileDisk()
    run_until_stopped(disk, puts)
    return len(disk.log)


CRASH_PUTS = random_puts(60, seed=9)


@pytest.mark.parametrize("operations", range(operations_needed(CRASH_PUTS) + 1))
def test_after_a_crash_at_any_operation_missing_records_are_put_again_and_none_twice(operations: int) -> None:
    disk = FragileDisk(operations=operations)
    checkpoint_timestamp = run_until_stopped(disk, CRASH_PUTS)

    for left in (disk.files, *disk.left_by_power_cut(seed=operations)):
        for known_timestamp in {0, checkpoint_timestamp}:
            index = opened(FragileDisk(left), known_timestamp)
            missing = [put for put in CRASH_PUTS if put.physical_offset >= index.end_physical_offset]
            put_all(index, missing)
            # Entries of records that the log had lost before the crash may or may not exist.
            assert_holds_since(index, CRASH_PUTS, CRASH_PUTS[10].physical_offset)


def assert_holds_since(index: KeyIndex, puts: list[Put], physical_offset: int) -> None:
    for key in {key for put in puts for key in put.keys}:
        wanted = [put.physical_offset for put in reversed(puts) for other in put.keys if other == key]
        others = [put.physical_offset for put in puts if key not in put.keys]
        found = [offset for offset in index.query(TOPIC, key, 10_000) if offset not in others]
        assert [o for o in found if o >= physical_offset] == [o for o in wanted if o >= physical_offset], key


def test_durable_entries_are_not_rebuilt_after_a_crash() -> None:
    disk = FragileDisk()
    puts = random_puts(100, seed=10)
    index = filled(disk, puts[:80])
    checkpoint_timestamp = index.flush().run()
    put_all(index, puts[80:])

    for left in disk.left_by_power_cut():
        again = opened(FragileDisk(left), checkpoint_timestamp)
        assert again.end_physical_offset == max(put.physical_offset for put in puts[:80] if put.keys)


def test_entries_are_found_on_a_real_disk(tmp_path: Path) -> None:
    puts = random_puts(200, seed=11)
    for start in range(0, 200, 50):
        index = KeyIndex(
            OpenFiles(RealDisk(), 10), tmp_path / "index", ManualClock(BEGIN + start), shape=SHAPE, pending_max=3
        )
        assert index.load(0) == []
        put_all(index, puts[start : start + 50])
        index.close()

    index = new_index(RealDisk(), tmp_path / "index", SHAPE)
    index.load()

    assert_holds(index, puts)
    index.close()
    for path in (tmp_path / "index").iterdir():
        IndexFile.open(OpenFiles(RealDisk(), 10), path, SHAPE).close()
