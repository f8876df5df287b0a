"""Makes one file of the commit log: at its full size, with room for all of it, and durable."""

import contextlib
import threading
from pathlib import Path

from kerolox.runtime.files import Disk, File
from kerolox.store.errors import SyncFailed
from kerolox.store.log.syncing import sync_directory, sync_file


class Preparation:
    """What it makes is a file of zeros, durable in name and size before anybody writes to it.

    It may run in a thread. Whoever runs it while it runs waits for its end, and whoever does so after that changes
    nothing: a file that is in use must not be made anew.
    """

    def __init__(self, disk: Disk, path: Path, start: int, size: int) -> None:
        self.path = path
        self.start = start
        # Why there is no file; or, if it is SyncFailed, why there may be none after a power cut.
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
        # Nothing is left of one that could not be removed.
        file.truncate(0)
        file.allocate(self._size)
        sync_file(file)
        sync_directory(self._disk, self.path.parent)

    def _remove(self) -> None:
        """Takes away what is not whole; one that stays is made anew by whoever comes next."""
        with contextlib.suppress(OSError):
            self._disk.remove(self.path)
            self._disk.sync(self.path.parent)
