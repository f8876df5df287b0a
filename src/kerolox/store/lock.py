"""The lock file: only one process on the machine may open a store at a time."""

import fcntl
import os
from pathlib import Path

from kerolox.store.errors import StoreError

# Device and inode of the directories that this process has open. POSIX locks do not exclude the process that holds
# them, and closing any other descriptor of the same file would release them.
_open_here: set[tuple[int, int]] = set()


class StoreLocked(StoreError):
    """The store is open already, in another process or in this one."""


class Lock:
    """A held lock; `release` gives it up."""

    def __init__(self, descriptor: int, directory: tuple[int, int]) -> None:
        self._descriptor = descriptor
        self._directory = directory

    def release(self) -> None:
        os.close(self._descriptor)
        _open_here.discard(self._directory)


def take_lock(path: Path) -> Lock:
    """Lock a store, whose directory must exist; StoreLocked if it is locked already.

    Java takes the same lock: the first byte of the file.
    """
    status = path.parent.stat()
    directory = status.st_dev, status.st_ino
    if directory in _open_here:
        raise StoreLocked(f"{path} is locked: this process has the store open already")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StoreLocked(f"{path} is locked: another process has the store open") from error
    except BaseException:
        os.close(descriptor)
        raise
    _open_here.add(directory)
    return Lock(descriptor, directory)
