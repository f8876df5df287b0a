"""Has the next file of the commit log made before it is needed, so that going on to it costs nothing."""

import asyncio
import logging
from collections.abc import Callable

from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.store.errors import SyncFailed
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.segments import Segments
from kerolox.store.log.syncing import OUT_OF_DESCRIPTORS

log = logging.getLogger(__name__)

# A disk that had no room is asked again after this time, unless the room is needed.
_RETRY_SECONDS = 10.0


class Preparer:
    """Begins when half of the last file is full; the original does as soon as it is taken into use.

    That there is no room for the next file harms nobody until the last one is full.
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
        """Whether the next file should be made, or be under way."""
        return self._log.end_offset >= self._segments.end_offset - self._margin

    def begin(self, *, is_needed: bool) -> "asyncio.Task[OSError | None] | None":
        """Has the file made in the background, if it is not so already; the task's result is why there is none.

        None if it is not tried, because it failed a short time ago and is not needed yet.
        """
        if self._task is None and (is_needed or self._clock.monotonic() >= self._retry_at):
            self._task = asyncio.create_task(self.prepare(), name="next file of the commit log")
            self._task.add_done_callback(self._end)
        return self._task

    def begin_early(self) -> None:
        """Has the file made for those who will need it; without an event loop it is made when it is needed."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self.begin(is_needed=False)

    async def prepare(self) -> OSError | None:
        """Makes the file if it is due; returns why that was not possible."""
        while self.is_due:
            preparation = self._segments.prepare(max(self._segments.end_offset, self._log.end_offset))
            await in_thread(preparation.run)
            try:
                self._segments.adopt(preparation)
            except SyncFailed as error:
                self._on_sync_failed(error)
                return None
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS and self._segments.shed():
                    continue
                self._note(error)
                return error
        self._retry_at = float("-inf")
        return None

    async def close(self) -> None:
        """Waits for what is under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _note(self, error: OSError) -> None:
        if self._retry_at == float("-inf"):
            log.warning("the next file of the commit log cannot be made yet: %s", error)
        self._retry_at = self._clock.monotonic() + _RETRY_SECONDS

    def _end(self, task: "asyncio.Task[OSError | None]") -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the next file of the commit log could not be made", exc_info=error)
