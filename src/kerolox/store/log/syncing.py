"""A sync that fails is final: what the disk holds then cannot be known, and a second one would not tell."""

import errno
from pathlib import Path

from kerolox.runtime.files import Disk, File
from kerolox.store.errors import SyncFailed

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def sync_file(file: File) -> None:
    """Makes what was written survive a power cut; SyncFailed if it may not."""
    try:
        file.sync()
    except OSError as error:
        raise sync_failed(file, error) from error


def sync_failed(file: File, error: OSError) -> SyncFailed:
    return SyncFailed(f"a sync has failed: {error} ({file.path})")


def sync_directory(disk: Disk, directory: Path) -> None:
    """Makes names survive a power cut; SyncFailed if they may not, OSError if it was not even begun.

    A directory is opened to be synced. Where there is no descriptor for it nothing is lost by trying again.
    """
    try:
        disk.sync(directory)
    except OSError as error:
        if error.errno in OUT_OF_DESCRIPTORS:
            raise
        raise SyncFailed(f"a sync has failed: {error} ({directory})") from error
