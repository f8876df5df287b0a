"""A failed sync is final, unless it never began."""

import errno
from pathlib import Path

import pytest

from kerolox.store.errors import SyncFailed
from kerolox.store.log.fsync import sync_directory, sync_file
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG


def test_a_directory_sync_without_a_descriptor_can_be_retried() -> None:
    disk = SimulatedDisk()
    disk.make_directory(LOG)
    disk.fail("sync", errno.EMFILE, count=1)

    with pytest.raises(OSError, match="Too many open files"):
        sync_directory(disk, LOG)

    sync_directory(disk, LOG)
    assert disk.counts["sync"] == 2


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_any_other_failure_is_final(error: int) -> None:
    disk = SimulatedDisk()
    file = disk.open(Path("/a"), create=True)
    disk.fail("sync", error)

    with pytest.raises(SyncFailed, match="a sync has failed"):
        sync_directory(disk, Path("/"))
    with pytest.raises(SyncFailed, match="a sync has failed"):
        sync_file(file)
