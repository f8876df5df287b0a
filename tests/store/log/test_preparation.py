"""Making one file of the log, and failing at each step of it."""

import errno
import threading

import pytest

from kerolox.store.errors import SyncFailed
from kerolox.store.log.preparation import Preparation
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG

PATH = LOG / f"{4096:020d}"


def new_preparation(disk: SimulatedDisk) -> Preparation:
    return Preparation(disk, PATH, 4096, 64)


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(LOG)
    for directory in (LOG.parent, LOG.parent.parent):
        disk.sync(directory)
    return disk


def test_what_was_made_is_zeros_of_full_size_and_survives_a_power_cut() -> None:
    disk = new_disk()
    disk.write(PATH, b"left by somebody")
    preparation = new_preparation(disk)

    preparation.run()

    assert (preparation.is_done, preparation.failure) == (True, None)
    assert {left.content(PATH) for left in disk.after_power_cut()} == {bytes(64)}
    assert disk.open_count == 0


def test_running_it_again_changes_nothing() -> None:
    disk = new_disk()
    preparation = new_preparation(disk)
    preparation.run()
    disk.overwrite(PATH, 0, b"in use")

    preparation.run()

    assert disk.content(PATH).startswith(b"in use")


def test_who_runs_it_meanwhile_waits_for_its_end() -> None:
    begun, let_go = threading.Event(), threading.Event()

    class Slow(SimulatedDisk):
        def _change(self, kind: str, *args: object) -> None:  # type: ignore[override]
            if kind == "allocate":
                begun.set()
                assert let_go.wait(20)
            super()._change(kind, *args)  # type: ignore[arg-type]

    disk = Slow()
    preparation = new_preparation(disk)
    thread = threading.Thread(target=preparation.run)
    thread.start()
    assert begun.wait(20)
    other = threading.Thread(target=preparation.run)
    other.start()
    assert not preparation.is_done

    let_go.set()
    other.join(20)

    assert preparation.is_done
    assert disk.counts["allocate"] == 1
    thread.join(20)


@pytest.mark.parametrize("kind", ["open", "truncate", "allocate"])
def test_without_room_there_is_no_file(kind: str) -> None:
    disk = new_disk()
    disk.fail(kind, errno.ENOSPC)
    preparation = new_preparation(disk)

    preparation.run()

    assert isinstance(preparation.failure, OSError)
    assert (preparation.is_done, disk.names(LOG), disk.open_count) == (False, [], 0)


@pytest.mark.parametrize("inside", [PATH.name, "commitlog"])
def test_a_sync_that_fails_says_so(inside: str) -> None:
    disk = new_disk()
    disk.fail("sync", errno.EIO, inside=inside)
    preparation = new_preparation(disk)

    preparation.run()

    assert isinstance(preparation.failure, SyncFailed)
