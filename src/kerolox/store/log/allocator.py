"""Creates the next file of the commit log before it is needed (AllocateMappedFileService)."""

import asyncio
import logging
from collections.abc import Callable

from kerolox.runtime.clock import Clock
from kerolox.runtime.threads import in_thread
from kerolox.store.errors import SyncFailed
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.fsync import OUT_OF_DESCRIPTORS
from kerolox.store.log.segments import Segments

log = logging.getLogger(__name__)

# After a failure the next attempt waits this long, unless the file is needed at once.
_RETRY_SECONDS = 10.0


class FileAllocator:
    """Begins when half of the last file is full; Java begins as soon as the last file comes into use.

    A lack of disk space has no effect until the last file is full.
    """

    def __init__(
        self, segments: Segments, commit_log: CommitLog, clock: Clock, *, on_sync_failed: Callable[[SyncFailed], None]
    ) -> None:
        self._segments = segments
        self._log = commit_log
        self._clock = clock
        self._on_sync_failed = on_sync_failed
        self._task: asyncio.Task[OSError | None] | None = None
        self._retry_at = float("-inf")
        self._margin = segments.segment_size // 2

    @property
    def is_due(self) -> bool:
        """Whether the next file should be created now."""
        return self._log.end_offset >= self._segments.end_offset - self._margin

    def begin(self, *, is_needed: bool) -> "asyncio.Task[OSError | None] | None":
        """Create the file in a background task and return the task; its result is the error if creation failed.

        A task that is already running is returned again. None if the last attempt failed less than `_RETRY_SECONDS`
        ago and the file is not needed yet.
        """
        if self._task is None and (is_needed or self._clock.monotonic() >= self._retry_at):
            self._task = asyncio.create_task(self.prepare(), name="next file of the commit log")
            self._task.add_done_callback(self._end)
        return self._task

    def begin_early(self) -> None:
        """Start creating the file if there is a running event loop; otherwise it is created when it is needed."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self.begin(is_needed=False)

    async def prepare(self) -> OSError | None:
        """Create the file if it is due; return the error if that failed."""
        while self.is_due:
            new_file = self._segments.prepare(max(self._segments.end_offset, self._log.end_offset))
            await in_thread(new_file.run)
            try:
                self._segments.adopt(new_file)
            except SyncFailed as error:
                self._on_sync_failed(error)
                return None
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS and self._segments.close_idle():
                    continue
                self._note_failure(error)
                return error
        self._retry_at = float("-inf")
        return None

    async def close(self) -> None:
        """Wait for the task in progress."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _note_failure(self, error: OSError) -> None:
        if self._retry_at == float("-inf"):
            log.warning("the next file of the commit log cannot be created yet: %s", error)
        self._retry_at = self._clock.monotonic() + _RETRY_SECONDS

    def _end(self, task: "asyncio.Task[OSError | None]") -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the next file of the commit log could not be created", exc_info=error)
