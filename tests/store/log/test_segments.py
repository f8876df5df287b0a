"""Segments and OpenFiles: files of equal size, and the limit of open files."""

import errno
from pathlib import Path

import pytest

from kerolox.runtime.files import RealDisk
from kerolox.store.errors import StoreDamaged, SyncFailed
from kerolox.store.log.segments import OpenFiles, Segments
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, segments

SIZE = 64


def name(start: int) -> str:
    return f"{start:020d}"


def filled(disk: SimulatedDisk, count: int, size: int = SIZE) -> Segments:
    """Return segments in which each byte is the number of its file."""
    made = segments(disk, size)
    for number in range(count):
        made.extend(number * size)
        made.write(number * size, bytes([number + 1]) * size)
    return made


def test_a_file_is_named_after_its_first_byte_and_has_its_full_size() -> None:
    disk = SimulatedDisk()

    filled(disk, 3)

    assert disk.names(LOG) == [name(0), name(64), name(128)]
    assert {len(disk.content(LOG / path)) for path in disk.names(LOG)} == {SIZE}


def test_the_first_file_may_begin_anywhere() -> None:
    disk = SimulatedDisk()
    made = segments(disk, SIZE)

    made.extend(200)

    assert (made.first_offset, made.end_offset, disk.names(LOG)) == (192, 256, [name(192)])


def test_reading_where_there_is_no_file_returns_nothing() -> None:
    made = segments(SimulatedDisk(), SIZE)
    assert (made.read(0, 10), made.first_offset, made.end_offset) == (b"", 0, 0)

    made.extend(SIZE)

    assert [made.read(offset, 5) for offset in (-1, 0, 63, 128)] == [b""] * 4
    assert made.read(64, 0) == made.read(64, -1) == b""


def test_a_read_ends_with_its_file() -> None:
    made = filled(SimulatedDisk(), 2)

    assert made.read(60, 10) == b"\1" * 4
    assert made.read(63, 10) == b"\1"
    assert made.read(64, 1000) == b"\2" * SIZE
    assert made.read(127, 1) == b"\2"


def test_read_into_ends_with_its_file() -> None:
    made = filled(SimulatedDisk(), 2)
    target = memoryview(bytearray(b"." * 10))

    assert bytes(made.read_into(SIZE - 4, target)) == b"\1" * 4
    assert bytes(made.read_into(SIZE, target)) == b"\2" * 10
    assert bytes(made.read_into(2 * SIZE, target)) == b""


def test_a_write_must_stay_within_one_file() -> None:
    made = filled(SimulatedDisk(), 1)

    with pytest.raises(AssertionError):
        made.write(60, b"12345")
    with pytest.raises(AssertionError):
        made.write(64, b"1")
    made.write(60, b"1234")

    assert made.read(58, 6) == b"\1\x011234"


def test_files_are_found_again() -> None:
    disk = SimulatedDisk()
    filled(disk, 3)

    again = segments(disk, SIZE)
    again.load()

    assert again.starts == [0, 64, 128]
    assert again.read(64, 3) == b"\2\2\2"


def test_files_with_other_names_are_ignored() -> None:
    disk = SimulatedDisk()
    filled(disk, 1)
    disk.write(LOG / "notes.txt", b"mine")
    disk.write(LOG / f"{name(64)}.bak", b"mine")

    again = segments(disk, SIZE)
    again.load()

    assert again.starts == [0]
    assert len(disk.names(LOG)) == 3


@pytest.mark.parametrize("size", [SIZE - 1, SIZE + 1, 1])
def test_a_file_of_the_wrong_size_is_rejected(size: int) -> None:
    disk = SimulatedDisk()
    filled(disk, 2)
    disk.open(LOG / name(64)).truncate(size)

    with pytest.raises(StoreDamaged, match=f"{name(64)} has {size} bytes, expected 64"):
        segments(disk, SIZE).load()


def test_a_missing_file_in_between_is_rejected() -> None:
    disk = SimulatedDisk()
    filled(disk, 3)
    disk.remove(LOG / name(64))

    with pytest.raises(StoreDamaged, match="does not follow"):
        segments(disk, SIZE).load()


@pytest.mark.parametrize("size", [0, 1, SIZE - 1])
def test_an_incomplete_last_file_of_zeros_is_removed(size: int) -> None:
    disk = SimulatedDisk()
    filled(disk, 2)
    disk.open(LOG / name(128), create=True).truncate(size)

    again = segments(disk, SIZE)
    again.load()

    assert again.starts == [0, 64]
    assert disk.names(LOG) == [name(0), name(64)]


def test_an_incomplete_last_file_that_cannot_be_removed_is_overwritten() -> None:
    disk = SimulatedDisk()
    filled(disk, 2)
    disk.open(LOG / name(128), create=True).truncate(10)
    disk.fail("remove", errno.EROFS, count=1)

    again = segments(disk, SIZE)
    again.load()
    assert again.starts == [0, 64]
    again.extend(128)

    assert again.read(128, SIZE) == bytes(SIZE)


def test_an_empty_file_that_is_not_the_last_is_rejected() -> None:
    disk = SimulatedDisk()
    filled(disk, 2)
    disk.open(LOG / name(0)).truncate(0)

    with pytest.raises(StoreDamaged, match="has 0 bytes"):
        segments(disk, SIZE).load()


def test_a_sparse_file_that_lost_its_size_gets_it_back() -> None:
    disk = SimulatedDisk()
    made = Segments(OpenFiles(disk, 10), LOG, SIZE, is_sparse=True)
    made.extend(0)
    made.write(0, b"abc")
    disk.open(LOG / name(0)).truncate(2)

    again = Segments(OpenFiles(disk, 10), LOG, SIZE, is_sparse=True)
    again.load()

    assert again.read(0, SIZE) == b"ab".ljust(SIZE, b"\0")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_file_without_disk_space_is_not_created(error: int) -> None:
    disk = SimulatedDisk()
    made = filled(disk, 1)
    disk.fail("allocate", error, count=1)

    with pytest.raises(OSError):
        made.extend(64)
    assert (made.end_offset, disk.names(LOG)) == (64, [name(0)])
    made.extend(64)

    assert made.read(64, SIZE) == bytes(SIZE)


def test_a_leftover_file_is_erased_when_its_offset_is_used() -> None:
    disk = SimulatedDisk()
    made = filled(disk, 1)
    disk.write(LOG / name(64), b"old" * 10)

    made.extend(64)

    assert made.read(64, SIZE) == bytes(SIZE)


def test_a_new_file_survives_a_power_cut() -> None:
    disk = SimulatedDisk()
    disk.make_directory(LOG)
    disk.sync(LOG.parent)
    disk.sync(LOG.parent.parent)

    filled(disk, 2)

    for left in disk.after_power_cut():
        again = segments(left, SIZE)
        again.load()
        assert again.starts == [0, 64]


def test_a_failed_sync_of_a_new_file_raises_sync_failed() -> None:
    disk = SimulatedDisk()
    disk.fail("sync", errno.EIO, count=1)

    with pytest.raises(SyncFailed):
        segments(disk, SIZE).extend(0)


def test_only_the_files_of_a_range_are_synced() -> None:
    disk = SimulatedDisk()
    made = filled(disk, 4)
    before = disk.counts["sync"]

    made.sync(64, 192)
    assert disk.counts["sync"] - before == 2
    made.sync(63, 193)
    assert disk.counts["sync"] - before == 6
    made.sync(100, 100)

    assert disk.counts["sync"] - before == 7


def test_cutting_removes_whole_files() -> None:
    disk = SimulatedDisk()
    made = filled(disk, 4)

    made.cut(129)
    assert made.starts == [0, 64, 128]
    made.cut(128)
    assert made.starts == [0, 64]
    made.cut(0)

    assert (made.starts, disk.names(LOG)) == ([], [])


def test_cutting_leaves_zeros_in_a_sparse_file() -> None:
    made = Segments(OpenFiles(SimulatedDisk(), 10), LOG, SIZE, is_sparse=True)
    for start in (0, 64):
        made.extend(start)
        made.write(start, b"x" * SIZE)

    made.cut(10)

    assert made.starts == [0]
    assert made.read(0, SIZE) == b"x" * 10 + bytes(54)


def test_views_of_deleted_files_are_not_returned_again(tmp_path: Path) -> None:
    made = Segments(OpenFiles(RealDisk(), 10), tmp_path, SIZE)
    for start in (0, 64, 128):
        made.extend(start)
        made.write(start, b"old" + bytes([start]) * 61)
    held = made.view(70)
    assert held is not None

    made.delete_before(128)
    assert (made.view(70), bytes(held[:4])) == (None, b"old\x40")
    assert bytes((made.view(130) or b"")[:4]) == b"old\x80"
    made.cut(128)
    made.extend(128)
    made.write(128, b"new")

    assert bytes((made.view(130) or b"")[:4]) == b"new\0"


def test_deleting_removes_whole_files_and_never_the_last() -> None:
    disk = SimulatedDisk()
    made = filled(disk, 4)

    assert made.delete_before(63) == 0
    assert made.delete_before(64) == 1
    assert made.delete_before(1000) == 2

    assert (made.starts, disk.names(LOG)) == ([192], [name(192)])
    assert made.read(128, 1) == b""


def test_a_file_that_cannot_be_deleted_is_deleted_later() -> None:
    disk = SimulatedDisk()
    made = filled(disk, 3)
    disk.fail("remove", errno.EIO, count=1)

    with pytest.raises(OSError):
        made.delete_before(128)
    assert made.read(0, 1) == b"\1"

    assert made.delete_before(128) == 2


def test_a_detached_file_is_not_read_and_stays_open_for_a_sync() -> None:
    disk = SimulatedDisk()
    made = filled(disk, 3)
    sync = made.prepare_sync(0, 64)

    removal = made.detach(64)
    assert removal is not None
    assert (made.first_offset, made.read(0, 1)) == (64, b"")
    assert made.detach(64) is None
    removal.run()
    made.finish_removal(removal)
    sync.run()
    made.release(sync)

    assert sync.is_done
    assert disk.names(LOG) == [name(64), name(128)]


def test_files_that_were_not_removed_are_taken_back() -> None:
    made = filled(SimulatedDisk(), 4)
    removals = [removal for _ in range(2) if (removal := made.detach(128))]

    removals[0].run()
    for removal in reversed(removals):
        made.finish_removal(removal)

    assert made.starts == [64, 128, 192]
    assert made.read(64, 1) == b"\2"


def test_forget_closes_files_and_keeps_them_on_disk() -> None:
    disk = SimulatedDisk()
    made = filled(disk, 3)

    made.forget()

    assert (made.starts, disk.open_count, len(disk.names(LOG))) == ([], 0, 3)


def test_no_more_files_are_open_than_allowed() -> None:
    disk = SimulatedDisk()
    files = OpenFiles(disk, 3)
    rows = [Segments(files, Path(f"/row{number}"), SIZE) for number in range(10)]
    for number, row in enumerate(rows):
        row.extend(0)
        row.write(0, bytes([number]) * 4)
        assert len(files) == disk.open_count <= 3

    assert [row.read(0, 1)[0] for row in rows] == list(range(10))
    assert disk.open_count == 3

    files.close()
    assert disk.open_count == 0


def test_the_least_recently_used_file_is_closed() -> None:
    disk = SimulatedDisk()
    files = OpenFiles(disk, 2)
    for letter in "abc":
        disk.write(Path("/") / letter, b"")
    a, b = files.get(Path("/a")), files.get(Path("/b"))
    files.get(Path("/a"))

    files.get(Path("/c"))

    assert files.get(Path("/a")) is a
    with pytest.raises(OSError, match="Bad file descriptor"):
        b.read(0, 1)


def test_a_file_stays_open_while_it_is_synced() -> None:
    disk = SimulatedDisk()
    files = OpenFiles(disk, 1)
    made = Segments(files, LOG, SIZE)
    made.extend(0)
    made.extend(64)
    made.extend(128)
    sync = made.prepare_sync(0, 128)

    made.read(128, 1)
    made.delete_before(64)
    made.cut(64)
    sync.run()
    assert sync.is_done
    made.release(sync)

    assert disk.open_count == len(files) == 0


def test_a_file_that_cannot_be_opened_is_not_held() -> None:
    disk = SimulatedDisk()
    made = Segments(OpenFiles(disk, 1), LOG, SIZE)
    made.extend(0)
    made.extend(64)
    disk.fail("open", errno.EMFILE, at=1, count=1)

    with pytest.raises(OSError, match="Too many open files"):
        made.prepare_sync(0, 128)
    made.sync(0, 128)

    assert disk.open_count <= 2


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_without_descriptors_the_least_recently_used_files_are_closed(error: int) -> None:
    disk = SimulatedDisk()
    files = OpenFiles(disk, 100)
    for letter in "abcde":
        disk.write(Path("/") / letter, b"")
    opened = [files.get(Path("/") / letter) for letter in "abcd"]
    held = files.hold(Path("/a"))
    disk.fail("open", error, count=1)

    files.get(Path("/e"))

    assert files.get(Path("/d")) is opened[3]
    assert held.size() == 0
    # Half of the three files that are not held, rounded up.
    for closed in opened[1:3]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            closed.size()
    assert disk.open_count == len(files) == 3


def test_without_descriptors_and_with_nothing_to_close_it_fails() -> None:
    disk = SimulatedDisk()
    files = OpenFiles(disk, 100)
    disk.write(Path("/a"), b"")
    files.hold(files.get(Path("/a")).path)
    disk.write(Path("/b"), b"")
    disk.fail("open", errno.EMFILE)

    with pytest.raises(OSError, match="Too many open files"):
        files.get(Path("/b"))


def test_the_next_file_is_created_without_free_descriptors() -> None:
    disk = SimulatedDisk()
    made = filled(disk, 3)
    made.read(0, 1)
    disk.fail("open", errno.EMFILE, count=1, inside=name(192))

    made.extend(192)

    assert made.read(192, SIZE) == bytes(SIZE)
