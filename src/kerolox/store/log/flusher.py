"""Makes the commit log durable: one sync for all who wait."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable

from kerolox.runtime.blocking import in_thread
from kerolox.runtime.service import Service
from kerolox.store.errors import StoreReadOnly, SyncFailed
from kerolox.store.log.commit_log import CommitLog

log = logging.getLogger(__name__)


class Flusher(Service):
    """Syncs when somebody waits, and every `interval_seconds` if nobody does.

    With `unsynced_size_min` less than so many bytes wait for `thorough_seconds`, counted from the last sync.

    While a sync is under way the next ones gather, so that a thousand senders share one. A sync that fails is the
    last: what the disk then holds cannot be known, and `failure` says so.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        *,
        interval_seconds: float,
        thorough_seconds: float = 0,
        unsynced_size_min: int = 0,
        on_durable: Callable[[], object] = lambda: None,
        on_failed: Callable[[StoreReadOnly], object] = lambda failure: None,
    ) -> None:
        self._log = commit_log
        self._interval_seconds = interval_seconds
        self._unsynced_size_min = unsynced_size_min
        # So many intervals pass before a little is synced, too.
        self._rounds_max = max(1, round(thorough_seconds / interval_seconds)) if interval_seconds else 1
        self._rounds = 0
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._syncing = asyncio.Lock()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._wanted = asyncio.Event()
        # Up to here the log survives a power cut.
        self.durable_offset = 0
        self.failure: StoreReadOnly | None = None

    def load(self, durable_offset: int) -> None:
        self.durable_offset = durable_offset

    async def wait(self, offset: int, *, timeout_seconds: float) -> bool:
        """Returns whether the log up to `offset` became durable in time; StoreReadOnly if it never will."""
        if self.failure is not None:
            raise self.failure
        if offset <= self.durable_offset:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout_seconds):
                await future
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        while self.failure is None:
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await self._wanted.wait()
            except TimeoutError:
                self._rounds += 1
                if self._is_little and self._rounds < self._rounds_max:
                    continue
            self._rounds = 0
            self._wanted.clear()
            await self.flush()

    @property
    def _is_little(self) -> bool:
        return self._log.end_offset - self.durable_offset < self._unsynced_size_min

    def wake(self) -> None:
        """Has the log synced soon, though nobody waits for it."""
        self._wanted.set()

    async def flush(self) -> None:
        """Makes durable what is written now, and wakes those who waited for it."""
        async with self._syncing:
            start, end = self.durable_offset, self._log.end_offset
            if end > start and self.failure is None:
                await self._sync(start, end)
        self._wake()

    async def _sync(self, start: int, end: int) -> None:
        try:
            sync = self._log.hold(start, end)
        except OSError as error:
            # Nothing has been synced yet, so that nothing is lost by trying again.
            log.error("the commit log could not be opened to be synced: %s", error)
            return
        try:
            with contextlib.suppress(SyncFailed):
                await in_thread(sync.run)
        finally:
            # Even if nobody waits for it any more.
            self._log.release(sync)
            if sync.is_done:
                self.durable_offset = end
                self._on_durable()
            elif sync.failure is not None:
                self.fail(sync.failure)

    async def close(self) -> None:
        await self.flush()

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.durable_offset:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def fail(self, failure: StoreReadOnly) -> None:
        """Ends all writing, for good."""
        log.error("nothing more is accepted: %s", failure)
        self.failure = failure
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(failure)
        self._on_failed(failure)
