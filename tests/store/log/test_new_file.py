"""NewFile: creating one file of the log, and failing at each step."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kerolox.store.errors import SyncFailed
from kerolox.store.log.new_file import NewFile
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG

PATH = LOG / f"{4096:020d}"


def create_new_file(disk: SimulatedDisk) -> NewFile:
    return NewFile(disk, PATH, 4096, 64)


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(LOG)
    for directory in (LOG.parent, LOG.parent.parent):
        disk.sync(directory)
    return disk


def test_a_new_file_has_only_zeros_and_survives_a_power_cut() -> None:
    disk = new_disk()
    disk.write(PATH, b"leftover bytes")
    new_file = create_new_file(disk)

    new_file.run()

    assert (new_file.is_done, new_file.failure) == (True, None)
    assert {left.content(PATH) for left in disk.after_power_cut()} == {bytes(64)}
    assert disk.open_count == 0


def test_running_it_again_changes_nothing() -> None:
    disk = new_disk()
    new_file = create_new_file(disk)
    new_file.run()
    disk.overwrite(PATH, 0, b"in use")

    new_file.run()

    assert disk.content(PATH).startswith(b"in use")


def test_a_concurrent_run_waits_for_the_first() -> None:
    begun, permits = threading.Event(), threading.Event()

    class Slow(SimulatedDisk):
        def _change(self, kind: str, path: Path, halfway: Callable[[], None] = lambda: None) -> None:
            if kind == "allocate":
                begun.set()
                assert permits.wait(20)
            super()._change(kind, path, halfway)

    disk = Slow()
    new_file = create_new_file(disk)
    thread = threading.Thread(target=new_file.run)
    thread.start()
    assert begun.wait(20)
    other = threading.Thread(target=new_file.run)
    other.start()
    assert not new_file.is_done

    permits.set()
    other.join(20)

    assert new_file.is_done
    assert disk.counts["allocate"] == 1
    thread.join(20)


@pytest.mark.parametrize("kind", ["open", "truncate", "allocate"])
def test_without_space_there_is_no_file(kind: str) -> None:
    disk = new_disk()
    disk.fail(kind, errno.ENOSPC)
    new_file = create_new_file(disk)

    new_file.run()

    assert isinstance(new_file.failure, OSError)
    assert (new_file.is_done, disk.names(LOG), disk.open_count) == (False, [], 0)


@pytest.mark.parametrize("inside", [PATH.name, "commitlog"])
def test_a_failed_sync_is_reported(inside: str) -> None:
    disk = new_disk()
    disk.fail("sync", errno.EIO, inside=inside)
    new_file = create_new_file(disk)

    new_file.run()

    assert isinstance(new_file.failure, SyncFailed)
