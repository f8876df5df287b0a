"""What follows the log and is written behind it: queues, index and checkpoint."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.store.checkpoint import Checkpoint
from kerolox.store.dispatcher import Dispatcher
from kerolox.store.errors import StoreError, SyncFailed
from kerolox.store.keys.key_index import KeyIndex
from kerolox.store.log.flusher import Flusher
from kerolox.store.log.segments import Sync, run_all
from kerolox.store.queue.consume_queue import ConsumeQueue
from kerolox.store.queue.queues import Queues
from kerolox.store.seal import NO_INDEX, Mark, Seal

log = logging.getLogger(__name__)

Failures = list[OSError | SyncFailed]

# So many queues are written before others have their turn; to make the files of new ones takes a while.
_QUEUES_WRITTEN_AT_ONCE = 16
# So many are synced in one trip to a thread.
_QUEUES_SYNCED_AT_ONCE = 64


class Behind(Service):
    """Writes queues every so often, and makes them durable with the index more rarely.

    They can be made again from the log, so that nobody waits for it: the less is durable, the more of the log is read
    again after a power cut.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        flusher: Flusher,
        queues: Queues,
        index: KeyIndex | None,
        checkpoint: Checkpoint,
        clock: Clock,
        *,
        interval_seconds: float,
        thorough_seconds: float,
        unsynced_size_max: int,
        follow: Callable[[], bool],
        marks: Callable[[], list[Mark]] = list,
    ) -> None:
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._thorough_seconds = thorough_seconds
        # A queue of which so many bytes were written is synced with the next round.
        self._unsynced_size_max = unsynced_size_max
        self._follow = follow
        # Held by whoever writes files of queues or index, or deletes them.
        self.lock = asyncio.Lock()
        # Why an attempt in the background has failed, until somebody takes note of it.
        self.failure: Exception | None = None
        self._flushed_at = clock.monotonic()
        # Gives checksums over the end of the log.
        self._marks = marks
        # After a sync that failed it can no longer be known what is durable.
        self.is_lost = False
        # The log may lose what lies before this offset, and no queue loses its place.
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
                self.failure = error
                # Queues and index can be made again from the log.
                log.error("queues and index could not be written, which is tried again: %s", error)

    async def write(self) -> None:
        """Writes what queues have in memory, and syncs those of which much was written."""
        async with self.lock:
            await self._catch_up()
            queues = list(self._queues.backlog.unwritten)
            failures = await self._write(queues)
            failures += await self._sync([queue for queue in queues if queue.unsynced_size >= self._unsynced_size_max])
        if failures:
            raise failures[0]

    async def flush(self) -> None:
        """Writes and syncs queues and index, then says so in the checkpoint."""
        async with self.lock:
            self._flushed_at = self._clock.monotonic()
            await self._flush()

    async def _flush(self) -> None:
        await self._catch_up()
        offset, timestamp = self._dispatcher.offset, self._dispatcher.timestamp
        index_offset = NO_INDEX if self._index is None else self._index.sealed_offset
        marks, entries = self._marks(), sum(queue.max_offset for queue in self._queues)
        await self._flusher.flush()
        dispatched_offset, backlog = self._dispatcher.offset, self._queues.backlog
        failures = await self._write(list(backlog.unwritten))
        failures += await self._sync(list(backlog.unsynced))
        if not self._are_queues_lost:
            # A queue without room for its entries gets them back from the log, and its place from the last of them.
            behind = {*backlog.unwritten, *backlog.unsynced} if failures else ()
            needed = [last for queue in behind if (last := queue.last_unsynced()) is not None]
            self.safe_offset = min(dispatched_offset, self._flusher.durable_offset, *needed)
        index_timestamp = timestamp if self._index is None else await self._flush_index(self._index)
        if failures:
            raise failures[0]
        # After a sync that failed, the next start makes everything again that is newer than the last checkpoint.
        if self._flusher.durable_offset >= offset and not self.is_lost:
            self._checkpoint.log_timestamp = self._checkpoint.queues_timestamp = timestamp
            self._checkpoint.index_timestamp = index_timestamp
            seal = Seal(offset, index_offset, entries, self._checkpoint.timestamps, marks)
            self._checkpoint.seal = seal.encode() if marks else b""
            await in_thread(self._flush_checkpoint)

    async def _catch_up(self) -> None:
        has_more = self._follow()
        while has_more:
            await asyncio.sleep(0)
            has_more = self._follow()

    async def _write(self, queues: Sequence[ConsumeQueue]) -> Failures:
        """Writes what is pending of some queues; those that fail do not keep the others from it."""
        failures: Failures = []
        for number, queue in enumerate(queues, 1):
            # Another may have written it meanwhile, or deleted it.
            if queue in self._queues.backlog.unwritten:
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
            # A disk takes about as long for thousands of small files together as for one of them.
            await in_thread(self._queues.write_back)
        for first in range(0, len(queues), _QUEUES_SYNCED_AT_ONCE):
            failures += await self._sync_some(queues[first : first + _QUEUES_SYNCED_AT_ONCE])
        return failures

    async def _sync_some(self, queues: Sequence[ConsumeQueue]) -> Failures:
        failures: Failures = []
        held: list[tuple[ConsumeQueue, Sync]] = []
        for queue in queues:
            if queue in self._queues.backlog.unsynced:
                try:
                    held.append((queue, queue.hold()))
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
            # Of the index, or of a checkpoint that was made for it.
            self.is_lost = True
            raise

    def _flush_checkpoint(self) -> None:
        try:
            self._checkpoint.flush()
        except SyncFailed:
            self.is_lost = True
            raise
