"""A store is opened by one owner at a time, between processes and within one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerolox.store.lock import StoreLocked, take_lock

TRY = """
import sys
from pathlib import Path
from kerolox.store.lock import StoreLocked, take_lock
try:
    take_lock(Path(sys.argv[1]))
except StoreLocked as error:
    print(error)
"""


def test_a_second_owner_in_the_same_process_is_refused(tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "lock")
    link = tmp_path.with_name(tmp_path.name + "-link")
    link.symlink_to(tmp_path)

    for path in (tmp_path, link, tmp_path / ".." / tmp_path.name):
        with pytest.raises(StoreLocked, match="this process has the store open already"):
            take_lock(path / "lock")
    lock.release()

    take_lock(link / "lock").release()


def test_a_refused_second_owner_does_not_release_the_lock(tmp_path: Path) -> None:
    """Closing any descriptor of a file releases the process's locks on it."""
    lock = take_lock(tmp_path / "lock")
    with pytest.raises(StoreLocked):
        take_lock(tmp_path / "lock")

    result = subprocess.run(
        [sys.executable, "-c", TRY, tmp_path / "lock"], capture_output=True, text=True, check=True, env=os.environ
    )

    assert "another process has the store open" in result.stdout
    lock.release()


def test_stores_in_different_directories_are_locked_independently(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    locks = [take_lock(tmp_path / name / "lock") for name in "ab"]

    for lock in locks:
        lock.release()


def test_a_failed_lock_can_be_retried(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(OSError):
        take_lock(tmp_path / "lock")
    (tmp_path / "lock").rmdir()

    take_lock(tmp_path / "lock").release()
