"""fsync whose failure is final.

After a failed fsync the kernel may drop the dirty pages: a second fsync can succeed although the data is not on disk.
"""

import errno
from pathlib import Path

from kerolox.runtime.files import Disk, File
from kerolox.store.errors import SyncFailed

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def sync_file(file: File) -> None:
    """Make the written bytes durable; SyncFailed if they may not be."""
    try:
        file.sync()
    except OSError as error:
        raise sync_failed(file, error) from error


def sync_failed(file: File, error: OSError) -> SyncFailed:
    return SyncFailed(f"a sync has failed: {error} ({file.path})")


def sync_directory(disk: Disk, directory: Path) -> None:
    """Make directory entries durable; SyncFailed if they may not be.

    OSError if there is no descriptor to open the directory with: nothing was synced yet, so a retry is safe.
    """
    try:
        disk.sync(directory)
    except OSError as error:
        if error.errno in OUT_OF_DESCRIPTORS:
            raise
        raise SyncFailed(f"a sync has failed: {error} ({directory})") from error
