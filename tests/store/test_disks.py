"""The simulated disk and the real one obey the same tests; what only the simulated one can do comes after."""

import errno
import os
from pathlib import Path

import pytest

from kerolox.runtime.files import Disk, RealDisk, replace_whole
from tests.store.disks import SimulatedDisk, Stopped


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    if request.param == "real":
        return RealDisk(), tmp_path
    disk = SimulatedDisk()
    disk.make_directory(Path("/place"))
    return disk, Path("/place")


def test_a_file_that_is_not_there_is_opened_only_to_be_created(place: tuple[Disk, Path]) -> None:
    disk, root = place

    with pytest.raises(FileNotFoundError):
        disk.open(root / "file")
    disk.open(root / "file", create=True).close()

    assert disk.names(root) == ["file"]


def test_no_file_is_created_in_a_directory_that_is_not_there(place: tuple[Disk, Path]) -> None:
    disk, root = place

    with pytest.raises(FileNotFoundError):
        disk.open(root / "missing" / "file", create=True)


def test_what_was_written_is_read_and_reading_ends_with_the_file(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "file", create=True)

    file.write(3, b"abcdef")

    assert file.read(0, 5) == b"\0\0\0ab"
    assert file.read(7, 100) == b"ef"
    assert file.read(9, 100) == b""
    assert file.read(100, 1) == b""
    target = bytearray(b"....")
    assert (file.read_into(2, memoryview(target)), bytes(target)) == (4, b"\0abc")
    assert (file.read_into(7, memoryview(target)), bytes(target)) == (2, b"efbc")
    assert file.read_into(100, memoryview(target)) == 0
    assert file.size() == 9
    file.sync()
    file.close()
    assert disk.read(root / "file") == b"\0\0\0abcdef"


def test_what_is_in_memory_is_read_at_once_unless_the_disk_does_not_tell(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.open(directory / "file", create=True)
    file.write(0, b"a" * 5000)

    data = file.read_cached(4000, 1000)

    assert data == (None if file.is_silent else b"a" * 1000)
    file.bring(1000, 4000)
    file.bring(4000, 8000)
    # What is not there is not in memory either.
    assert file.read_cached(4001, 1000) is None
    file.close()


def test_a_view_shows_what_is_written_later_and_outlives_the_file(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.open(directory / "file", create=True)
    assert file.view() is None
    file.allocate(8192)
    view = file.view()
    assert view is not None
    assert view.readonly

    file.write(4096, b"later")
    file.close()
    disk.remove(file.path)

    assert (len(view), bytes(view[4096:4101])) == (8192, b"later")


def test_allocating_makes_a_file_longer_and_never_shorter(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "file", create=True)
    file.write(0, b"abc")

    file.allocate(10)
    file.allocate(5)

    assert file.read(0, 100) == b"abc" + bytes(7)
    file.close()


def test_truncating_makes_a_file_longer_or_shorter(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "file", create=True)
    file.write(0, b"abc")

    file.truncate(2)
    file.truncate(4)

    assert file.read(0, 100) == b"ab\0\0"
    file.close()


def test_after_the_end_of_its_data_a_file_has_only_zeros(place: tuple[Disk, Path]) -> None:
    disk, directory = place
    file = disk.open(directory / "file", create=True)
    assert file.data_end() == 0
    file.allocate(1024 * 1024)
    for written in (0, 700_000, 300_000, 1024 * 1024 - 1):
        file.write(written, b"x")

        assert not any(file.read(file.data_end(), 1024 * 1024))
        assert written < file.data_end() <= 1024 * 1024

    file.close()


def test_two_who_have_a_file_open_see_the_same(place: tuple[Disk, Path]) -> None:
    disk, root = place
    one, other = disk.open(root / "file", create=True), disk.open(root / "file")

    one.write(0, b"abc")

    assert other.read(0, 3) == b"abc"
    one.close()
    other.close()


def test_a_removed_file_is_still_there_for_who_has_it_open(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "file", create=True)
    file.write(0, b"abc")

    disk.remove(root / "file")

    assert file.read(0, 3) == b"abc"
    assert disk.read(root / "file") is None
    assert disk.names(root) == []
    file.close()
    with pytest.raises(FileNotFoundError):
        disk.remove(root / "file")


def test_a_closed_file_is_not_used(place: tuple[Disk, Path]) -> None:
    disk, root = place
    file = disk.open(root / "file", create=True)
    file.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 1)


def test_writing_a_whole_file_replaces_it(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.write(root / "file", b"a long one")

    disk.write(root / "file", b"short")
    disk.sync(root / "file")

    assert disk.read(root / "file") == b"short"


def test_a_rename_replaces_its_target(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.write(root / "old", b"old")
    disk.write(root / "new", b"new")

    disk.rename(root / "new", root / "old")
    disk.sync(root)

    assert disk.names(root) == ["old"]
    assert disk.read(root / "old") == b"new"


def test_directories_are_made_with_those_above_them_and_may_be_there(place: tuple[Disk, Path]) -> None:
    disk, root = place

    disk.make_directory(root / "a" / "b")
    disk.make_directory(root / "a" / "b")

    assert disk.names(root / "a") == ["b"]
    assert disk.names(root / "a" / "b") == disk.names(root / "none") == []


def test_the_names_in_a_directory_are_sorted(place: tuple[Disk, Path]) -> None:
    disk, root = place
    for name in ("b", "c", "a"):
        disk.write(root / name, b"")

    assert disk.names(root) == ["a", "b", "c"]


def test_what_is_not_there_is_not_synced(place: tuple[Disk, Path]) -> None:
    disk, root = place

    with pytest.raises(FileNotFoundError):
        disk.sync(root / "missing")


def test_a_disk_is_between_empty_and_full(place: tuple[Disk, Path]) -> None:
    disk, root = place

    assert 0 <= disk.used_ratio(root) <= 1


def test_a_directory_is_removed_when_nothing_is_in_it(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.make_directory(root / "a" / "b")

    with pytest.raises(OSError, match="not empty"):
        disk.remove_directory(root / "a")
    disk.remove_directory(root / "a" / "b")
    disk.remove_directory(root / "a")

    assert disk.names(root) == []


def test_a_directory_can_be_renamed_with_all_there_is_in_it(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.make_directory(root / "old")
    disk.write(root / "old" / "file", b"abc")

    disk.rename(root / "old", root / "new")

    assert disk.read(root / "new" / "file") == b"abc"
    with pytest.raises(FileNotFoundError):
        disk.rename(root / "old", root / "other")


def test_writing_to_a_file_and_not_reading_it_changes_when_it_was_modified(place: tuple[Disk, Path]) -> None:
    disk, root = place
    disk.write(root / "file", b"abc")
    if isinstance(disk, RealDisk):
        os.utime(root / "file", (1, 1))
    else:
        assert isinstance(disk, SimulatedDisk)
        disk.millis = lambda: 1000
        disk.write(root / "file", b"abc")
        disk.millis = lambda: 2000
    file = disk.open(root / "file")
    file.read(0, 1)
    assert disk.modified_millis(root / "file") == 1000

    file.write(0, b"x")
    file.close()

    assert disk.modified_millis(root / "file") > 1000
    with pytest.raises(FileNotFoundError):
        disk.modified_millis(root / "missing")


# The simulated disk alone.

FILE = Path("/file")


def test_a_power_cut_takes_what_was_not_synced() -> None:
    disk = SimulatedDisk()
    file = disk.open(FILE, create=True)
    file.write(0, b"abc")
    file.sync()
    disk.sync(FILE.parent)

    file.write(0, b"xyz")

    assert next(disk.after_power_cut()).read(FILE) == b"abc"
    assert disk.after_kill().read(FILE) == b"xyz"


def test_a_power_cut_takes_a_name_that_was_not_synced_and_leaves_one_without_content() -> None:
    disk = SimulatedDisk()
    file = disk.open(FILE, create=True)
    file.write(0, b"abc")
    file.sync()
    assert next(disk.after_power_cut()).read(FILE) is None

    other = disk.open(Path("/other"), create=True)
    other.write(0, b"abc")
    disk.sync(FILE.parent)

    left = next(disk.after_power_cut())
    assert (left.read(FILE), left.read(Path("/other"))) == (b"abc", b"")


def test_a_removed_name_comes_back_if_the_directory_was_not_synced() -> None:
    disk = SimulatedDisk()
    disk.write(FILE, b"abc")
    disk.sync(FILE)
    disk.sync(FILE.parent)

    disk.remove(FILE)

    assert next(disk.after_power_cut()).read(FILE) == b"abc"


def test_unsynced_writes_arrive_torn_and_out_of_order() -> None:
    disk = SimulatedDisk()
    file = disk.open(FILE, create=True)
    file.allocate(2048)
    file.sync()
    disk.sync(FILE.parent)
    file.write(0, b"a" * 1024)
    file.write(1024, b"b" * 1024)

    contents = [left.content(FILE) for left in disk.after_power_cut(count=300)]

    assert b"a" * 1024 + b"b" * 1024 in contents
    assert bytes(1024) + b"b" * 1024 in contents
    assert any(content.startswith(bytes(512) + b"a" * 512) for content in contents)
    assert any(content.count(b"a") % 512 for content in contents)
    assert contents == [left.content(FILE) for left in disk.after_power_cut(count=300)]


def test_after_a_stop_nothing_happens_any_more() -> None:
    disk = SimulatedDisk()
    file = disk.open(FILE, create=True)
    disk.stop_after = disk.operations + 1
    file.write(0, b"abcd")

    with pytest.raises(Stopped):
        file.write(4, b"efgh")
    with pytest.raises(Stopped):
        file.read(0, 1)

    assert disk.after_kill().read(FILE) == b"abcdef"


def test_a_failure_comes_where_it_is_wanted() -> None:
    disk = SimulatedDisk()
    file = disk.open(FILE, create=True)
    disk.fail("write", errno.EIO, at=1, count=1)
    file.write(0, b"a")

    with pytest.raises(OSError, match="Input/output error"):
        file.write(1, b"b")
    file.write(1, b"b")

    assert file.read(0, 2) == b"ab"


def test_what_a_failed_sync_lost_the_next_one_does_not_bring_back() -> None:
    disk = SimulatedDisk()
    file = disk.open(FILE, create=True)
    file.write(0, b"old")
    file.sync()
    disk.sync(FILE.parent)
    file.write(0, b"new")
    disk.fail("sync", errno.EIO, count=1)

    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()

    assert file.read(0, 3) == b"new"
    assert next(disk.after_power_cut()).read(FILE) == b"old"


def test_a_full_disk_has_no_room() -> None:
    disk = SimulatedDisk()
    disk.capacity = 100
    file = disk.open(FILE, create=True)
    file.allocate(100)

    with pytest.raises(OSError, match="No space left"):
        file.write(100, b"a")


def test_a_whole_replacement_survives_every_stop() -> None:
    for stop_after in range(20):
        disk = SimulatedDisk()
        replace_whole(disk, FILE, b"old")
        disk.stop_after = disk.operations + stop_after
        try:
            replace_whole(disk, FILE, b"new")
        except Stopped:
            expected = {b"old", b"new"}
        else:
            expected = {b"new"}
        assert all(left.read(FILE) in expected for left in disk.after_power_cut(seed=stop_after))
