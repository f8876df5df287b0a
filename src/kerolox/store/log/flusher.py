"""Makes the commit log durable: one sync for all who wait."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter

from kerolox.runtime.blocking import OwnThreads
from kerolox.runtime.kernel_syncs import KernelSyncs
from kerolox.runtime.service import Service
from kerolox.store.errors import StoreReadOnly, SyncFailed
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.segments import Sync

log = logging.getLogger(__name__)

# A sync is given so long before the next begins beside it. Disks that are faster want larger groups, not more of them.
_ALONE_SECONDS_MIN = 0.001


class _Syncing:
    """A sync under way: up to where, and since when."""

    __slots__ = ("began", "done", "end", "is_ended", "sync")

    def __init__(self, sync: Sync, end: int) -> None:
        self.sync = sync
        self.end = end
        self.began = perf_counter()
        self.is_ended = False
        # Set when it has ended, and so have those before it.
        self.done = asyncio.Event()


class Flusher(Service):
    """Syncs when somebody waits, and every `interval_seconds` if nobody does.

    With `unsynced_size_min` less than so many bytes wait for `thorough_seconds`, counted from the last sync.

    While a sync is under way the next ones gather, so that a thousand senders share one. Where syncs take long, up to
    `syncs_max` are under way at the same time, begun at even distances: a disk is no slower for it, and nobody waits
    for the whole of a sync that cannot help. Their ends count in the order in which they began.

    A sync that fails is the last: what the disk then holds cannot be known, and `failure` says so.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        *,
        interval_seconds: float,
        thorough_seconds: float = 0,
        unsynced_size_min: int = 0,
        syncs_max: int = 1,
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
        self._syncs_max = syncs_max
        self._under_way: deque[_Syncing] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        # How long a sync takes, of late.
        self._sync_seconds = 0.0
        # Senders wait for them, and what else blocks must not keep them waiting.
        self._threads = OwnThreads("log sync", syncs_max)
        # Does without threads, while this runs and where it can be had.
        self._kernel: KernelSyncs | None = None
        self._is_kernel_asked = True
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        # While this runs.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_wanted = False
        # What will see whether another may begin.
        self._handle: asyncio.Handle | None = None
        self._failed = asyncio.Event()
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
        self.wake()
        try:
            async with asyncio.timeout(timeout_seconds):
                await future
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            if self._is_wanted:
                self.wake()
            while self.failure is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._interval_seconds):
                        await self._failed.wait()
                        return
                self._rounds += 1
                if self._is_little and self._rounds < self._rounds_max:
                    continue
                self._rounds = 0
                await self.flush()
        finally:
            self._loop = None
            self._forget_look()

    @property
    def _is_little(self) -> bool:
        return self._log.end_offset - self.durable_offset < self._unsynced_size_min

    def wake(self) -> None:
        """Has the log synced soon, though nobody waits for it."""
        self._is_wanted = True
        if self._handle is None and self._loop is not None:
            # What else this turn brings is synced with it.
            self._handle = self._loop.call_soon(self._look)

    async def flush(self) -> None:
        """Makes durable what is written now, and wakes those who waited for it."""
        end = self._log.end_offset
        while self.durable_offset < end and self.failure is None:
            covering = next((syncing for syncing in self._under_way if syncing.end >= end), None)
            if covering is not None or len(self._under_way) >= self._syncs_max:
                await (covering or self._under_way[0]).done.wait()
                if covering is not None:
                    return
            else:
                begun = self._begin()
                if begun is not None:
                    if not self._is_carried_out_by_kernel(begun):
                        await self._carry_out(begun)
                    await begun.done.wait()
                return

    def _look(self) -> None:
        """Begins a sync if one is wanted: now, or when it may begin."""
        self._handle = None
        if not self._is_wanted or self._loop is None:
            return
        if len(self._under_way) >= self._syncs_max:
            # The end of one leads here again.
            return
        if self._under_way:
            alone = max(self._sync_seconds / self._syncs_max, _ALONE_SECONDS_MIN)
            left = self._under_way[-1].began + alone - perf_counter()
            if left > 0:
                self._handle = self._loop.call_later(left, self._look)
                return
        self._is_wanted = False
        self._rounds = 0
        begun = self._begin()
        if begun is not None and not self._is_carried_out_by_kernel(begun):
            task = self._loop.create_task(self._carry_out(begun))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _begin(self) -> _Syncing | None:
        """Begins to make durable what is written now; None if there is nothing, or it cannot be opened."""
        start, end = self.durable_offset, self._log.end_offset
        if end <= start or self.failure is not None:
            return None
        try:
            # All that is not known to be durable: this sync is not to rely on another's end.
            sync = self._log.hold(start, end)
        except OSError as error:
            # Nothing has been synced yet, so that nothing is lost by trying again.
            log.error("the commit log could not be opened to be synced: %s", error)
            return None
        syncing = _Syncing(sync, end)
        self._under_way.append(syncing)
        return syncing

    def _is_carried_out_by_kernel(self, syncing: _Syncing) -> bool:
        """Whether the sync was begun, and its end will be told; otherwise it needs a thread."""
        if self._loop is None or not self._is_kernel_asked:
            return False
        if self._kernel is None:
            try:
                self._kernel = KernelSyncs(self._loop)
            except OSError as error:
                log.info("the commit log is synced in threads: %s", error)
                self._is_kernel_asked = False
                return False
        return syncing.sync.begin(self._kernel, lambda: self._note_end(syncing))

    async def _carry_out(self, syncing: _Syncing) -> None:
        try:
            with contextlib.suppress(SyncFailed):
                await self._threads.run(syncing.sync.run)
        except OSError as error:
            # It was not begun, for want of descriptors, and is tried again.
            log.error("the commit log could not be synced: %s", error)
        finally:
            # Even if nobody waits for it any more.
            self._note_end(syncing)

    def _note_end(self, syncing: _Syncing) -> None:
        self._log.release(syncing.sync)
        self._sync_seconds = perf_counter() - syncing.began
        syncing.is_ended = True
        try:
            # Should one before it fail, its own success would mean nothing.
            while self._under_way and self._under_way[0].is_ended:
                first = self._under_way.popleft()
                try:
                    self._end(first.sync, first.end)
                finally:
                    first.done.set()
        finally:
            if self._is_wanted:
                self._forget_look()
                self.wake()

    def _forget_look(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _end(self, sync: Sync, end: int) -> None:
        if sync.failure is not None and self.failure is None:
            self.fail(sync.failure)
        elif sync.is_done and self.failure is None:
            self.durable_offset = end
            self._on_durable()
            self._wake()

    async def close(self) -> None:
        try:
            await self.flush()
            while self._under_way:
                await self._under_way[0].done.wait()
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            self._threads.close()
            if self._kernel is not None:
                self._kernel.close()
                self._kernel = None

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.durable_offset:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def fail(self, failure: StoreReadOnly) -> None:
        """Ends all writing, for good."""
        log.error("nothing more is accepted: %s", failure)
        self.failure = failure
        self._failed.set()
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(failure)
        self._on_failed(failure)
