"""The lock file: one process at a time has a store open."""

import fcntl
import os
from pathlib import Path

from kerolox.store.errors import StoreError


class StoreLocked(StoreError):
    """Another process has the store open."""


def take_lock(path: Path) -> int:
    """Returns a descriptor that holds the lock until it is closed; StoreLocked if another process has it.

    It is the lock that Java takes, too: the first byte of the file.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StoreLocked(f"{path} is locked: another process has the store open") from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
