"""Tests that both the simulated and the real disk pass, and tests of the simulated one."""

import errno
import os
from pathlib import Path

import pytest

from kerolox.runtime.files import Disk, RealDisk, replace_whole
from tests.store.disks import SimulatedDisk, Stopped


@pytest.fixture(params=["real", "simulated"])
def disk_and_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    if request.param == "real":
        return RealDisk(), tmp_path
    disk = SimulatedDisk()
    disk.make_directory(Path("/root"))
    return disk, Path("/root")


def test_a_missing_file_is_opened_only_with_create(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root

    with pytest.raises(FileNotFoundError):
        disk.open(root / "file")
    disk.open(root / "file", create=True).close()

    assert disk.names(root) == ["file"]


def test_no_file_is_created_in_a_missing_directory(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root

    with pytest.raises(FileNotFoundError):
        disk.open(root / "missing" / "file", create=True)


def test_reads_return_what_was_written_up_to_the_end_of_the_file(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
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


def test_read_cached_returns_cached_data_unless_the_disk_is_silent(disk_and_root: tuple[Disk, Path]) -> None:
    disk, directory = disk_and_root
    file = disk.open(directory / "file", create=True)
    file.write(0, b"a" * 5000)

    data = file.read_cached(4000, 1000)

    assert data == (None if file.lacks_cached_reads else b"a" * 1000)
    file.prefetch(1000, 4000)
    file.prefetch(4000, 8000)
    # Beyond the end of the file nothing is cached.
    assert file.read_cached(4001, 1000) is None
    file.close()


def test_a_view_shows_later_writes_and_outlives_the_file(disk_and_root: tuple[Disk, Path]) -> None:
    disk, directory = disk_and_root
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


def test_allocate_extends_a_file_and_never_shortens_it(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    file = disk.open(root / "file", create=True)
    file.write(0, b"abc")

    file.allocate(10)
    file.allocate(5)

    assert file.read(0, 100) == b"abc" + bytes(7)
    file.close()


def test_truncate_extends_or_shortens_a_file(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    file = disk.open(root / "file", create=True)
    file.write(0, b"abc")

    file.truncate(2)
    file.truncate(4)

    assert file.read(0, 100) == b"ab\0\0"
    file.close()


def test_a_file_has_only_zeros_after_data_end(disk_and_root: tuple[Disk, Path]) -> None:
    disk, directory = disk_and_root
    file = disk.open(directory / "file", create=True)
    assert file.data_end() == 0
    file.allocate(1024 * 1024)
    for written in (0, 700_000, 300_000, 1024 * 1024 - 1):
        file.write(written, b"x")

        assert not any(file.read(file.data_end(), 1024 * 1024))
        assert written < file.data_end() <= 1024 * 1024

    file.close()


def test_two_open_files_of_one_path_share_their_content(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    one, other = disk.open(root / "file", create=True), disk.open(root / "file")

    one.write(0, b"abc")

    assert other.read(0, 3) == b"abc"
    one.close()
    other.close()


def test_a_removed_file_can_be_read_while_it_is_open(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    file = disk.open(root / "file", create=True)
    file.write(0, b"abc")

    disk.remove(root / "file")

    assert file.read(0, 3) == b"abc"
    assert disk.read(root / "file") is None
    assert disk.names(root) == []
    file.close()
    with pytest.raises(FileNotFoundError):
        disk.remove(root / "file")


def test_using_a_closed_file_fails(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    file = disk.open(root / "file", create=True)
    file.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 1)


def test_writing_a_whole_file_replaces_it(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    disk.write(root / "file", b"a long one")

    disk.write(root / "file", b"short")
    disk.sync(root / "file")

    assert disk.read(root / "file") == b"short"


def test_a_rename_replaces_its_target(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    disk.write(root / "old", b"old")
    disk.write(root / "new", b"new")

    disk.rename(root / "new", root / "old")
    disk.sync(root)

    assert disk.names(root) == ["old"]
    assert disk.read(root / "old") == b"new"


def test_make_directory_creates_parents_and_accepts_existing_directories(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root

    disk.make_directory(root / "a" / "b")
    disk.make_directory(root / "a" / "b")

    assert disk.names(root / "a") == ["b"]
    assert disk.names(root / "a" / "b") == disk.names(root / "none") == []


def test_names_are_sorted(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    for name in ("b", "c", "a"):
        disk.write(root / name, b"")

    assert disk.names(root) == ["a", "b", "c"]


def test_syncing_a_missing_path_fails(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root

    with pytest.raises(FileNotFoundError):
        disk.sync(root / "missing")


def test_the_used_ratio_is_between_zero_and_one(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root

    assert 0 <= disk.used_ratio(root) <= 1


def test_only_empty_directories_are_removed(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    disk.make_directory(root / "a" / "b")

    with pytest.raises(OSError, match="not empty"):
        disk.remove_directory(root / "a")
    disk.remove_directory(root / "a" / "b")
    disk.remove_directory(root / "a")

    assert disk.names(root) == []


def test_a_directory_is_renamed_with_its_files(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
    disk.make_directory(root / "old")
    disk.write(root / "old" / "file", b"abc")

    disk.rename(root / "old", root / "new")

    assert disk.read(root / "new" / "file") == b"abc"
    with pytest.raises(FileNotFoundError):
        disk.rename(root / "old", root / "other")


def test_writes_but_not_reads_change_the_modification_time(disk_and_root: tuple[Disk, Path]) -> None:
    disk, root = disk_and_root
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


# The simulated disk only

FILE = Path("/file")


def test_a_power_cut_loses_unsynced_writes() -> None:
    disk = SimulatedDisk()
    file = disk.open(FILE, create=True)
    file.write(0, b"abc")
    file.sync()
    disk.sync(FILE.parent)

    file.write(0, b"xyz")

    assert next(disk.after_power_cut()).read(FILE) == b"abc"
    assert disk.after_kill().read(FILE) == b"xyz"


def test_a_power_cut_loses_unsynced_names_and_leaves_names_without_synced_content_empty() -> None:
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


def test_a_removed_file_reappears_if_the_directory_was_not_synced() -> None:
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


def test_all_operations_fail_after_a_stop() -> None:
    disk = SimulatedDisk()
    file = disk.open(FILE, create=True)
    disk.stop_after = disk.operations + 1
    file.write(0, b"abcd")

    with pytest.raises(Stopped):
        file.write(4, b"efgh")
    with pytest.raises(Stopped):
        file.read(0, 1)

    assert disk.after_kill().read(FILE) == b"abcdef"


def test_a_failure_happens_where_it_is_requested() -> None:
    disk = SimulatedDisk()
    file = disk.open(FILE, create=True)
    disk.fail("write", errno.EIO, at=1, count=1)
    file.write(0, b"a")

    with pytest.raises(OSError, match="Input/output error"):
        file.write(1, b"b")
    file.write(1, b"b")

    assert file.read(0, 2) == b"ab"


def test_a_later_sync_does_not_recover_what_a_failed_sync_lost() -> None:
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


def test_writing_to_a_full_disk_fails() -> None:
    disk = SimulatedDisk()
    disk.capacity = 100
    file = disk.open(FILE, create=True)
    file.allocate(100)

    with pytest.raises(OSError, match="No space left"):
        file.write(100, b"a")


def test_replace_whole_leaves_old_or_new_content_at_every_stop() -> None:
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
