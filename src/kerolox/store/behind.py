"""What follows the log and is written behind it: queues, index and checkpoint."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.store.checkpoint import Checkpoint
from kerolox.store.consume_queue import ConsumeQueue
from kerolox.store.dispatcher import Dispatcher
from kerolox.store.errors import StoreError, SyncFailed
from kerolox.store.flusher import Flusher
from kerolox.store.key_index import KeyIndex
from kerolox.store.queues import Queues

log = logging.getLogger(__name__)

T = TypeVar("T")


class Behind(Service):
    """Makes queues and index durable every so often. They can be made again from the log, so nobody waits for it."""

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
        follow: Callable[[], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._follow = follow
        # Held by whoever writes files of queues or index, or deletes them.
        self.lock = asyncio.Lock()
        # Why an attempt in the background has failed, until somebody takes note of it.
        self.failure: Exception | None = None
        # After a sync that failed it can no longer be known what is durable.
        self.is_lost = False
        # The log may lose what lies before this offset, and no queue loses its place.
        self.safe_offset = 0
        self._are_queues_lost = False

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._interval_seconds)
            try:
                await self.flush()
            except (OSError, StoreError) as error:
                self.failure = error
                # Queues and index can be made again from the log.
                log.error("queues and index could not be written, which is tried again: %s", error)

    async def flush(self) -> None:
        """Writes and syncs queues and index, then says so in the checkpoint."""
        async with self.lock:
            await self._flush()

    async def _flush(self) -> None:
        self._follow()
        offset, timestamp = self._dispatcher.offset, self._dispatcher.timestamp
        await self._flusher.flush()
        dispatched_offset, queues = self._dispatcher.offset, list(self._queues)
        failures = [failure for queue in queues if (failure := await self._flush_queue(queue))]
        if not self._are_queues_lost:
            # A queue without room for its entries gets them back from the log, and its place from the last of them.
            needed = [last for queue in queues if (last := queue.last_unsynced()) is not None] if failures else []
            self.safe_offset = min(dispatched_offset, self._flusher.durable_offset, *needed)
        if self._index is not None:
            flush = self._index.flush()
            index_timestamp = await in_thread(self._note_loss, flush.run)
        else:
            index_timestamp = timestamp
        if failures:
            raise failures[0]
        # After a sync that failed, the next start makes everything again that is newer than the last checkpoint.
        if self._flusher.durable_offset >= offset and not self.is_lost:
            self._checkpoint.log_timestamp = self._checkpoint.queues_timestamp = timestamp
            self._checkpoint.index_timestamp = index_timestamp
            await in_thread(self._note_loss, self._checkpoint.flush)

    async def _flush_queue(self, queue: ConsumeQueue) -> OSError | SyncFailed | None:
        """Makes one queue durable, or returns why it is not; the others can be all the same."""
        if queue.is_durable:
            return None
        try:
            queue.flush()
            sync = queue.hold()
            try:
                await in_thread(sync.run)
            finally:
                queue.release(sync)
                self._are_queues_lost |= sync.failure is not None
                self.is_lost |= self._are_queues_lost
        except (OSError, SyncFailed) as error:
            return error
        return None

    def _note_loss(self, flush: Callable[[], T]) -> T:
        try:
            return flush()
        except OSError:
            self.is_lost = True
            raise
