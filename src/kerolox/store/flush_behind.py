"""Writes and syncs consume queues, key index and checkpoint behind the log (FlushConsumeQueueService)."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.runtime.threads import in_thread
from kerolox.store.config import PAGE_SIZE, StoreConfig
from kerolox.store.errors import StoreError, SyncFailed
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.flusher import Flusher
from kerolox.store.log.segments import Sync, run_all
from kerolox.store.queue.consume_queue import ConsumeQueue
from kerolox.store.recovery.derived_files import DerivedData, DerivedState, QueueEnd, end_of
from kerolox.store.recovery.log_checksums import NO_INDEX, LogChecksums

log = logging.getLogger(__name__)

Failures = list[OSError | SyncFailed]

# Queues written between two yields to the event loop; creating the files of new queues takes a while.
_QUEUES_WRITTEN_AT_ONCE = 16
# Queues synced by one call in a thread.
_QUEUES_SYNCED_AT_ONCE = 64
# Queue ends collected between two yields to the event loop.
_QUEUE_ENDS_AT_ONCE = 2000


class FlushBehind(Service):
    """Writes queues at a short interval, and syncs queues and index at a longer one.

    Senders do not wait for this, since queues and index can be rebuilt from the log. The less of them is durable, the
    more of the log is read again after a power cut.
    """

    def __init__(
        self,
        config: StoreConfig,
        commit_log: CommitLog,
        flusher: Flusher,
        derived: DerivedData,
        clock: Clock,
        *,
        dispatch_pending: Callable[[], bool],
    ) -> None:
        self._log = commit_log
        self._flusher = flusher
        self._clock = clock
        self._dispatcher = derived.dispatcher
        self.queues = derived.queues
        self.index = derived.index
        self._checkpoint = derived.checkpoint
        # Gets the state of queues and index once they are durable.
        self._state_file = derived.state_file
        # Dispatches some of the log that is not dispatched yet; True if there is more.
        self._dispatch_pending = dispatch_pending
        self._interval_seconds = config.flush_interval_consume_queue / 1000
        self._thorough_seconds = config.flush_consume_queue_thorough_interval / 1000
        # A queue with as many unsynced bytes is synced by the next `write`.
        self._unsynced_size_max = config.flush_consume_queue_least_pages * PAGE_SIZE
        # Held while files of queues or index are written or deleted.
        self.lock = asyncio.Lock()
        self._failure: Exception | None = None
        self._flushed_at = clock.monotonic()
        # Version of the queues in the state file.
        self._version_saved = -1
        # After a failed fsync it is unknown what is durable, so the checkpoint is no longer written.
        self.is_lost = False
        # The log may be deleted before this offset without losing the entries of a queue.
        self.safe_offset = 0
        self._are_queues_lost = False

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._interval_seconds)
            try:
                if self._clock.monotonic() >= self._flushed_at + self._thorough_seconds:
                    await self.flush()
                else:
                    await self.write()
            except (OSError, StoreError) as error:
                self._failure = error
                log.error("queues and index could not be written, retrying: %s", error)

    def take_failure(self) -> Exception | None:
        """Return why the last attempt in the background failed, once; None if it did not."""
        failure, self._failure = self._failure, None
        return failure

    async def write(self) -> None:
        """Write the entries that queues hold in memory, and sync the queues with many unsynced bytes."""
        async with self.lock:
            await self._catch_up()
            queues = list(self.queues.backlog.unwritten)
            failures = await self._write(queues)
            failures += await self._sync([queue for queue in queues if queue.unsynced_size >= self._unsynced_size_max])
        if failures:
            raise failures[0]

    async def flush(self, *, is_last: bool = False) -> None:
        """Write and sync queues and index, then the checkpoint.

        The last flush before a clean stop also saves the exact state that the next start must find.
        """
        async with self.lock:
            self._flushed_at = self._clock.monotonic()
            await self._flush(is_last=is_last)

    async def _flush(self, *, is_last: bool) -> None:
        await self._catch_up()
        version = self.queues.backlog.version
        ends = await self._ends() if is_last or version != self._version_saved else None
        offset, timestamp = self._dispatcher.offset, self._dispatcher.timestamp
        index_offset = NO_INDEX if self.index is None else self.index.indexed_end_offset
        checksums = self._log.checksums.copy(self._log.first_offset)
        entries = sum(queue.max_offset for queue in self.queues)
        await self._flusher.flush()
        dispatched_offset, backlog = self._dispatcher.offset, self.queues.backlog
        failures = await self._write(list(backlog.unwritten))
        failures += await self._sync(list(backlog.unsynced))
        if not self._are_queues_lost:
            # A queue that could not be written is rebuilt from the log: its records must not be deleted before that.
            behind = {*backlog.unwritten, *backlog.unsynced} if failures else ()
            needed = [last for queue in behind if (last := queue.last_unsynced()) is not None]
            self.safe_offset = min(dispatched_offset, self._flusher.durable_offset, *needed)
        index_timestamp = timestamp if self.index is None else await self._flush_index(self.index)
        if failures:
            raise failures[0]
        # After a failed fsync the checkpoint is not written: the next start rebuilds everything that is newer.
        if self._flusher.durable_offset >= offset and not self.is_lost:
            self._checkpoint.log_timestamp = self._checkpoint.queues_timestamp = timestamp
            self._checkpoint.index_timestamp = index_timestamp
            saved = LogChecksums(offset, index_offset, entries, self._checkpoint.timestamps, checksums)
            self._checkpoint.log_checksums = saved.encode() if checksums else b""
            if ends is not None:
                heads = {} if self.index is None else self.index.heads
                await in_thread(self._state_file.save, DerivedState(offset, ends, heads))
                self._version_saved = version
            await in_thread(self._flush_checkpoint)

    async def _ends(self) -> list[QueueEnd]:
        """Return the ends of all queues, or a little less: other tasks may run meanwhile if there are many queues."""
        ends: list[QueueEnd] = []
        for key, queue in list(self.queues.items()):
            ends.append(end_of(key, queue))
            if len(ends) % _QUEUE_ENDS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return ends

    async def _catch_up(self) -> None:
        has_more = self._dispatch_pending()
        while has_more:
            await asyncio.sleep(0)
            has_more = self._dispatch_pending()

    async def _write(self, queues: Sequence[ConsumeQueue]) -> Failures:
        """Write the pending entries of queues. A failure does not stop the others."""
        failures: Failures = []
        for number, queue in enumerate(queues, 1):
            # It may have been written or deleted while this task yielded.
            if queue in self.queues.backlog.unwritten:
                try:
                    queue.flush()
                except OSError as error:
                    failures.append(error)
            if number % _QUEUES_WRITTEN_AT_ONCE == 0:
                await asyncio.sleep(0)
        return failures

    async def _sync(self, queues: Sequence[ConsumeQueue]) -> Failures:
        failures: Failures = []
        if len(queues) > _QUEUES_SYNCED_AT_ONCE:
            # Starting the write-back of all files at once takes about as long as syncing one of them.
            await in_thread(self.queues.write_back)
        for first in range(0, len(queues), _QUEUES_SYNCED_AT_ONCE):
            failures += await self._sync_slice(queues[first : first + _QUEUES_SYNCED_AT_ONCE])
        return failures

    async def _sync_slice(self, queues: Sequence[ConsumeQueue]) -> Failures:
        failures: Failures = []
        held: list[tuple[ConsumeQueue, Sync]] = []
        for queue in queues:
            if queue in self.queues.backlog.unsynced:
                try:
                    held.append((queue, queue.prepare_sync()))
                except OSError as error:
                    failures.append(error)
        try:
            return failures + await in_thread(run_all, [sync for _, sync in held])
        finally:
            for queue, sync in held:
                queue.release(sync)
                self._are_queues_lost |= sync.failure is not None
                self.is_lost |= self._are_queues_lost

    async def _flush_index(self, index: KeyIndex) -> int:
        flush = index.flush()
        try:
            return await in_thread(flush.run, None if self.is_lost else self._checkpoint.announce_index)
        except SyncFailed:
            # The index, or the checkpoint that announces it.
            self.is_lost = True
            raise

    def _flush_checkpoint(self) -> None:
        try:
            self._checkpoint.flush()
        except SyncFailed:
            self.is_lost = True
            raise
