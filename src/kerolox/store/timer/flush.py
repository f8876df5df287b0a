"""Makes the timer's files durable, each after those it refers to (TimerFlushService)."""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from kerolox.runtime.clock import Clock
from kerolox.runtime.threads import in_thread
from kerolox.store.errors import StoreReadOnly, SyncFailed
from kerolox.store.log.fsync import sync_file
from kerolox.store.store import Store
from kerolox.store.timer.checkpoint import TimerCheckpoint
from kerolox.store.timer.metrics import TimerMetrics
from kerolox.store.timer.timer_log import TimerLog
from kerolox.store.timer.wheel import Changes, Wheel


@dataclass(frozen=True, slots=True)
class TimerFiles:
    """The files of a timer."""

    wheel: Wheel
    log: TimerLog
    checkpoint: TimerCheckpoint
    metrics: TimerMetrics


class Progress(NamedTuple):
    """Progress of enqueueing and delivery."""

    queue_offset: int
    # Physical offset from which deliveries are that a crash now would repeat.
    delivered_from: int
    # Number of messages that left the timer.
    done_count: int


class TimerFlush:
    """Flushes the commit log first, then the timer log, whose units refer to it, then the wheel, which refers to units,
    and last the checkpoint, which declares all of them durable."""

    def __init__(self, store: Store, files: TimerFiles, clock: Clock) -> None:
        self._store = store
        self._wheel = files.wheel
        self._log = files.log
        self._checkpoint = files.checkpoint
        self._metrics = files.metrics
        self._clock = clock
        self._flushing = asyncio.Lock()
        # Running flushes whose changes of the wheel may not be in its file yet.
        self._running_flushes = 0
        # After a failed fsync it is unknown what is durable, so the checkpoint is no longer written.
        self.is_lost = False

    @property
    def is_flushing(self) -> bool:
        return self._running_flushes > 0

    async def flush(self, progress: Progress, *, with_counts: bool) -> None:
        """Make the current state durable; on OSError or SyncFailed the checkpoint stays as it was."""
        self._running_flushes += 1
        try:
            await self._flush(progress, with_counts=with_counts)
        finally:
            self._running_flushes -= 1

    async def _flush(self, progress: Progress, *, with_counts: bool) -> None:
        read_time, end = self._wheel.read_time, self._log.end
        needed = self._store.log.end_offset
        changes = self._wheel.take_changes()
        counts = self._metrics.take_content() if with_counts else None
        version = self._metrics.version
        try:
            async with self._flushing:
                await self._store.flusher.flush()
                if self._store.flusher.durable_offset < needed:
                    raise StoreReadOnly("the commit log is not durable up to the messages of the timer log")
                await self._flush_log(end)
                await self._flush_wheel(changes)
                if counts is not None:
                    await in_thread(self._metrics.save, counts)
                if not self.is_lost:
                    self._checkpoint.set_progress(
                        read_time=read_time,
                        log_position=end,
                        queue_offset=progress.queue_offset,
                        delivered_from=progress.delivered_from,
                        counts_version=version,
                        now=self._clock.millis(),
                    )
                    await self._flush_checkpoint()
        except BaseException:
            self._wheel.restore_changes(changes)
            if counts is not None:
                self._metrics.mark_changed()
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
