"""Syncs the commit log, one sync for all waiting senders (GroupCommitService, FlushRealTimeService)."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from kerolox.runtime.aio_fsync import AioFsync
from kerolox.runtime.service import Service
from kerolox.runtime.threads import ThreadPool
from kerolox.store.errors import StoreReadOnly, SyncFailed
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.segments import Sync

log = logging.getLogger(__name__)

# Least time between the beginnings of two overlapping syncs. A faster disk gains from larger groups, not from overlap.
_SYNC_DISTANCE_SECONDS_MIN = 0.001


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """How often the log is synced when no sender waits, and how many syncs may overlap.

    The log is synced every `interval_seconds` if at least `unsynced_size_min` bytes are unsynced, and in any case
    `thorough_seconds` after the last sync (flushCommitLogLeastPages, flushCommitLogThoroughInterval).
    """

    interval_seconds: float
    thorough_seconds: float = 0
    unsynced_size_min: int = 0
    syncs_max: int = 1


class _SyncInFlight:
    __slots__ = ("began", "done", "end", "is_ended", "sync")

    def __init__(self, sync: Sync, end: int) -> None:
        self.sync = sync
        self.end = end
        self.began = perf_counter()
        self.is_ended = False
        # Set when this sync and all that began before it have ended.
        self.done = asyncio.Event()


class Flusher(Service):
    """Syncs the log as soon as a sender waits, otherwise by the intervals of its FlushPolicy.

    Requests that arrive during a sync share the next one, so a thousand senders cost one sync. Where a sync takes long,
    up to `syncs_max` overlap, begun at even distances: the disk is no slower for it, and a sender waits for the end of
    a sync that began after its write, not for one and a half. Syncs complete in the order in which they began.

    A failed sync is final: it is unknown what the disk holds. It is kept in `failure`, and no further sync is tried.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        policy: FlushPolicy,
        *,
        on_durable: Callable[[], object] = lambda: None,
        on_failed: Callable[[StoreReadOnly], object] = lambda failure: None,
    ) -> None:
        self._log = commit_log
        self._interval_seconds = policy.interval_seconds
        self._unsynced_size_min = policy.unsynced_size_min
        # Intervals that may pass before less than `unsynced_size_min` is synced, too.
        intervals = round(policy.thorough_seconds / policy.interval_seconds) if policy.interval_seconds else 1
        self._skips_max = max(1, intervals)
        self._skips = 0
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._syncs_max = policy.syncs_max
        self._in_flight: deque[_SyncInFlight] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        # Duration of the last sync.
        self._sync_seconds = 0.0
        # Threads of its own: senders wait for a sync, and other blocking work must not delay it.
        self._threads = ThreadPool("log sync", policy.syncs_max)
        # Syncs without threads, while `run` is active and if the kernel supports it.
        self._aio: AioFsync | None = None
        self._may_use_aio = True
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        # Set while `run` is active.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_sync_wanted = False
        # The scheduled call of `_begin_wanted`.
        self._scheduled: asyncio.Handle | None = None
        self._failed = asyncio.Event()
        # The log is durable up to here.
        self.durable_offset = 0
        self.failure: StoreReadOnly | None = None

    def load(self, durable_offset: int) -> None:
        self.durable_offset = durable_offset

    async def wait(self, offset: int, *, timeout_seconds: float) -> bool:
        """Return whether the log up to `offset` became durable in time; StoreReadOnly if it never will."""
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
            if self._is_sync_wanted:
                self.wake()
            while self.failure is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._interval_seconds):
                        await self._failed.wait()
                        return
                self._skips += 1
                if self._has_little_unsynced and self._skips < self._skips_max:
                    continue
                self._skips = 0
                await self.flush()
        finally:
            self._loop = None
            self._cancel_scheduled()

    @property
    def _has_little_unsynced(self) -> bool:
        return self._log.end_offset - self.durable_offset < self._unsynced_size_min

    def wake(self) -> None:
        """Request a sync that begins in the next iteration of the event loop, or as soon as one may begin."""
        self._is_sync_wanted = True
        if self._scheduled is None and self._loop is not None:
            # Not at once: what else this iteration appends is covered by the same sync.
            self._scheduled = self._loop.call_soon(self._begin_wanted)

    async def flush(self) -> None:
        """Make the log durable up to its present end, and wake the waiters up to there."""
        end = self._log.end_offset
        while self.durable_offset < end and self.failure is None:
            covering = next((sync for sync in self._in_flight if sync.end >= end), None)
            if covering is not None or len(self._in_flight) >= self._syncs_max:
                await (covering or self._in_flight[0]).done.wait()
                if covering is not None:
                    return
            else:
                begun = self._begin()
                if begun is not None:
                    if not self._submit_to_kernel(begun):
                        await self._run_in_thread(begun)
                    await begun.done.wait()
                return

    def _begin_wanted(self) -> None:
        """Begin the wanted sync, or schedule it for the time at which it may begin."""
        self._scheduled = None
        if not self._is_sync_wanted or self._loop is None:
            return
        if len(self._in_flight) >= self._syncs_max:
            # `_finish` calls `wake` when one of them ends.
            return
        if self._in_flight:
            distance = max(self._sync_seconds / self._syncs_max, _SYNC_DISTANCE_SECONDS_MIN)
            left = self._in_flight[-1].began + distance - perf_counter()
            if left > 0:
                self._scheduled = self._loop.call_later(left, self._begin_wanted)
                return
        self._is_sync_wanted = False
        self._skips = 0
        begun = self._begin()
        if begun is not None and not self._submit_to_kernel(begun):
            task = self._loop.create_task(self._run_in_thread(begun))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _begin(self) -> _SyncInFlight | None:
        """Prepare a sync up to the present end of the log; None if all is durable or the files cannot be opened."""
        start, end = self.durable_offset, self._log.end_offset
        if end <= start or self.failure is not None:
            return None
        try:
            # From `durable_offset` on, also what syncs in flight cover: this one must not depend on their success.
            sync = self._log.prepare_sync(start, end)
        except OSError as error:
            # Nothing has been synced yet, so a retry is safe.
            log.error("the commit log could not be opened for a sync: %s", error)
            return None
        in_flight = _SyncInFlight(sync, end)
        self._in_flight.append(in_flight)
        return in_flight

    def _submit_to_kernel(self, in_flight: _SyncInFlight) -> bool:
        """Submit the sync to the kernel, which calls `_finish`; False if it needs a thread instead."""
        if self._loop is None or not self._may_use_aio:
            return False
        if self._aio is None:
            try:
                self._aio = AioFsync(self._loop)
            except OSError as error:
                log.info("the commit log is synced in threads: %s", error)
                self._may_use_aio = False
                return False
        return in_flight.sync.begin(self._aio, lambda: self._finish(in_flight))

    async def _run_in_thread(self, in_flight: _SyncInFlight) -> None:
        try:
            with contextlib.suppress(SyncFailed):
                await self._threads.run(in_flight.sync.run)
        except OSError as error:
            # The sync did not begin, for lack of descriptors; it is retried.
            log.error("the commit log could not be synced: %s", error)
        finally:
            # Also if the caller was cancelled: later syncs complete only after this one.
            self._finish(in_flight)

    def _finish(self, in_flight: _SyncInFlight) -> None:
        self._log.release(in_flight.sync)
        self._sync_seconds = perf_counter() - in_flight.began
        in_flight.is_ended = True
        try:
            # In the order in which they began: if an earlier sync fails, the success of a later one proves nothing.
            while self._in_flight and self._in_flight[0].is_ended:
                first = self._in_flight.popleft()
                try:
                    self._complete(first.sync, first.end)
                finally:
                    first.done.set()
        finally:
            if self._is_sync_wanted:
                self._cancel_scheduled()
                self.wake()

    def _cancel_scheduled(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None

    def _complete(self, sync: Sync, end: int) -> None:
        if sync.failure is not None and self.failure is None:
            self.fail(sync.failure)
        elif sync.is_done and self.failure is None:
            self.durable_offset = end
            self._on_durable()
            self._wake_waiters()

    async def close(self) -> None:
        try:
            await self.flush()
            while self._in_flight:
                await self._in_flight[0].done.wait()
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            self._threads.close()
            if self._aio is not None:
                self._aio.close()
                self._aio = None

    def _wake_waiters(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.durable_offset:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def fail(self, failure: StoreReadOnly) -> None:
        """Stop syncing for good and report `failure` to all waiters; the store is read-only from now on."""
        log.error("the store is read-only from now on: %s", failure)
        self.failure = failure
        self._failed.set()
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(failure)
        self._on_failed(failure)
