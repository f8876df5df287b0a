"""The lock file: a store is open once at a time, on the whole machine."""

import fcntl
import os
from pathlib import Path

from kerolox.store.errors import StoreError

# Device and number of the directories that this process has open: the system's lock is between processes only, and
# would be lost by as little as closing another descriptor of the same file.
_open_here: set[tuple[int, int]] = set()


class StoreLocked(StoreError):
    """Somebody has the store open: another process, or this one."""


class Lock:
    """Holds a store until it is released."""

    def __init__(self, descriptor: int, directory: tuple[int, int]) -> None:
        self._descriptor = descriptor
        self._directory = directory

    def release(self) -> None:
        os.close(self._descriptor)
        _open_here.discard(self._directory)


def take_lock(path: Path) -> Lock:
    """Takes the lock of a store, whose directory must be there; StoreLocked if somebody else has it.

    It is the lock that Java takes, too: the first byte of the file.
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
