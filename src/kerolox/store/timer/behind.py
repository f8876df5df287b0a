"""Makes the timer's files durable, in the order in which they rely on each other."""

import asyncio
from typing import NamedTuple

from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.store.errors import StoreReadOnly, SyncFailed
from kerolox.store.log.syncing import sync_file
from kerolox.store.store import Store
from kerolox.store.timer.checkpoint import TimerCheckpoint
from kerolox.store.timer.metrics import TimerMetrics
from kerolox.store.timer.timer_log import TimerLog
from kerolox.store.timer.wheel import Changes, Wheel


class Progress(NamedTuple):
    """How far messages have been entered and delivered."""

    queue_offset: int
    # Where in the commit log deliveries begin that a crash now would repeat.
    delivered_from: int
    # How many messages have left the timer.
    left: int


class TimerBehind:
    """First the commit log, then the timer log, which tells of it, then the wheel, which leads there, and last the
    checkpoint, which says that all of it is so."""

    def __init__(
        self,
        store: Store,
        wheel: Wheel,
        timer_log: TimerLog,
        checkpoint: TimerCheckpoint,
        metrics: TimerMetrics,
        clock: Clock,
    ) -> None:
        self._store = store
        self._wheel = wheel
        self._log = timer_log
        self._checkpoint = checkpoint
        self._metrics = metrics
        self._clock = clock
        self._flushing = asyncio.Lock()
        # After a sync that failed it can no longer be known what is durable, and the checkpoint stays as it is.
        self.is_lost = False

    async def flush(self, progress: Progress, *, with_counts: bool) -> None:
        """Makes durable what is so now; OSError or SyncFailed, and an older checkpoint, if it is not."""
        read_time, end = self._wheel.read_time, self._log.end
        needed = self._store.log.end_offset
        changes = self._wheel.take()
        counts = self._metrics.take() if with_counts else None
        version = self._metrics.version
        try:
            async with self._flushing:
                await self._store.flusher.flush()
                if self._store.flusher.durable_offset < needed:
                    raise StoreReadOnly("the commit log is not durable up to what the timer tells of")
                await self._flush_log(end)
                await self._flush_wheel(changes)
                if counts is not None:
                    await in_thread(self._metrics.save, counts)
                if not self.is_lost:
                    self._checkpoint.move(
                        read_time=read_time,
                        log_position=end,
                        queue_offset=progress.queue_offset,
                        delivered_from=progress.delivered_from,
                        counts_version=version,
                        now=self._clock.millis(),
                    )
                    await self._flush_checkpoint()
        except BaseException:
            self._wheel.put_back(changes)
            if counts is not None:
                self._metrics.put_back()
            raise

    async def _flush_log(self, end: int) -> None:
        if self._log.durable >= end:
            return
        self._log.flush(end)
        sync = self._log.hold()
        try:
            await in_thread(sync.run)
        finally:
            self._log.release(sync)
            self.is_lost |= sync.failure is not None

    async def _flush_checkpoint(self) -> None:
        try:
            await in_thread(self._checkpoint.flush)
        except SyncFailed:
            self.is_lost = True
            raise

    async def _flush_wheel(self, changes: Changes) -> None:
        if changes.pages:
            await in_thread(changes.write)
            try:
                await in_thread(sync_file, changes.file)
            except SyncFailed:
                self.is_lost = True
                raise
