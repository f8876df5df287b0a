"""Creates one file of the commit log at its full size, with its disk space reserved, durably."""

import contextlib
import threading
from pathlib import Path

from kerolox.runtime.files import Disk, File
from kerolox.store.errors import SyncFailed
from kerolox.store.log.fsync import sync_directory, sync_file


class NewFile:
    """Creates a file of zeros whose name and size are durable before anything is written to it.

    `run` may be called in a thread and more than once: a concurrent call waits for the first, and a later call does
    nothing, because a file that is in use must not be created again.
    """

    def __init__(self, disk: Disk, path: Path, start: int, size: int) -> None:
        self.path = path
        self.start = start
        # OSError: why there is no file. SyncFailed: why the file may not survive a power cut.
        self.failure: OSError | SyncFailed | None = None
        self.is_done = False
        self._size = size
        self._disk = disk
        self._running = threading.Lock()

    def run(self) -> None:
        with self._running:
            if self.is_done or self.failure is not None:
                return
            try:
                self._make()
            except (OSError, SyncFailed) as error:
                self.failure = error
            else:
                self.is_done = True

    def _make(self) -> None:
        self._disk.make_directory(self.path.parent)
        file = self._disk.open(self.path, create=True)
        try:
            self._fill(file)
        except OSError:
            self._remove()
            raise
        finally:
            file.close()

    def _fill(self, file: File) -> None:
        # Erases a leftover file that could not be removed.
        file.truncate(0)
        file.allocate(self._size)
        sync_file(file)
        sync_directory(self._disk, self.path.parent)

    def _remove(self) -> None:
        """Remove the incomplete file; if that fails, the next attempt overwrites it."""
        with contextlib.suppress(OSError):
            self._disk.remove(self.path)
            self._disk.sync(self.path.parent)
