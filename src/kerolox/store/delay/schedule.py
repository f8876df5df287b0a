"""Delivers delayed messages to the queues that they were sent to (ScheduleMessageService)."""

import asyncio
import logging

from kerolox.errors import KeroloxError
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.service import Service
from kerolox.store.config import FlushDiskType
from kerolox.store.delay.delay_levels import SCHEDULE_TOPIC, parse_levels
from kerolox.store.delay.delay_offsets import DelayOffsets
from kerolox.store.delay.due_messages import DueMessages
from kerolox.store.errors import StoreFull
from kerolox.store.store import Store

log = logging.getLogger(__name__)

_RETRY_SECONDS = 10.0
# Longest sleep, after which a change of the wall clock is noticed.
_LOOK_AGAIN_SECONDS = 1.0
_ARRIVAL_SECONDS = 3600.0


class ScheduledDelivery(Service):
    """One task for each delay level. Open it after the store and before messages are put; close it before the store.

    Messages are never early and never lost. After a crash, deliveries of before are recognised by their unique keys.
    Only messages without one, or in a store without an index, may be delivered twice, if they were delivered within
    the last `flushDelayOffsetInterval`.
    """

    def __init__(self, store: Store, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self.levels = parse_levels(store.config.message_delay_level)
        self.offsets = DelayOffsets(store.config.store_path_root_dir, self._clock, disk or RealDisk())
        # Delay level → next queue offset to deliver. Deliveries before it may not be durable yet.
        self._next: dict[int, int] = {}
        # Physical end of the last delivery.
        self._end_offset = 0
        self._due_messages = DueMessages(store.reader, self.levels, append_size_max=store.log.append_size_max)

    # Lifecycle

    async def open(self) -> None:
        self.load()

    def load(self) -> None:
        """Read the progress of each level; StoreDamaged if it cannot be read."""
        self.offsets.load()
        for level in self.levels:
            self._next[level] = self._corrected(level, self.offsets.get(level))
        store = self._store
        queues = {queue_id + 1: queue for (topic, queue_id), queue in store.queues.items() if topic == SCHEDULE_TOPIC}
        for level, queue in queues.items():
            if level not in self.levels and queue.max_offset > queue.min_offset:
                log.warning("delay level %d has messages, but messageDelayLevel does not define it", level)
        last_timestamp = max(store.dispatcher.timestamp, store.checkpoint.log_timestamp)
        ends = {level: queue.max_offset for level, queue in queues.items()}
        self._due_messages.check_deliveries_before(ends, last_timestamp)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._persist_periodically(), name="delay offsets")
            for level in self.levels:
                tasks.create_task(self._deliver_level(level), name=f"delay level {level}")

    async def close(self) -> None:
        await self.persist()

    # Delivery

    async def _deliver_level(self, level: int) -> None:
        while True:
            try:
                seconds = self.deliver(level)
                if seconds is None:
                    # No await since the end of the queue was seen, so no message is missed.
                    await self._store.message_waiters.wait(SCHEDULE_TOPIC, level - 1, seconds=_ARRIVAL_SECONDS)
                    continue
                await self._wait_durable(level)
            except (KeroloxError, OSError) as error:
                log.error("delivery of level %d failed, retrying in %d s: %s", level, _RETRY_SECONDS, error)
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await self._clock.sleep(min(seconds, _LOOK_AGAIN_SECONDS))
        else:
            await asyncio.sleep(0)

    def deliver(self, level: int) -> float | None:
        """Deliver due messages, at most one write, and return the seconds until the next call.

        None: nothing to do before the next message arrives. StoreError if a due message was not stored; the next call
        tries again.
        """
        if self._store.queues.get(SCHEDULE_TOPIC, level - 1) is None:
            return None
        offset = self._next[level] = self._corrected(level, self._next[level])
        due = self._due_messages.find(level, offset, self._clock.millis())
        if due.appends:
            positions = self._store.append(due.appends)
            if positions:
                self._end_offset = positions[-1].end_offset
                self._next[level] = due.next_offsets[len(positions) - 1]
            if len(positions) < len(due.appends):
                raise StoreFull("the disk has no room for another file of the commit log")
        self._next[level] = due.end_offset
        return due.seconds if due.end_offset == offset else 0.0

    async def _wait_durable(self, level: int) -> None:
        """Wait until the deliveries are durable, with SYNC_FLUSH."""
        if self._store.config.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
            return
        end, timeout = self._end_offset, self._store.config.sync_flush_timeout / 1000
        # However long the disk takes: the deliveries are in the log and must not be repeated.
        while not await self._store.flusher.wait(end, timeout_seconds=timeout):
            log.warning("level %d: deliveries are not durable after %.1f s", level, timeout)

    # Progress

    @property
    def progress(self) -> dict[int, int]:
        """Delay level → next queue offset to deliver. `offsets` follows once the deliveries are durable."""
        return dict(self._next)

    async def _persist_periodically(self) -> None:
        while True:
            await self._clock.sleep(self._store.config.flush_delay_offset_interval / 1000)
            await self.persist()

    async def persist(self) -> None:
        """Save the progress of each level, after making the deliveries durable.

        Otherwise a power cut could lose a delivery but keep the offset after it.
        """
        progress, end = dict(self._next), self._end_offset
        await self._store.flusher.flush()
        if self._store.flusher.durable_offset < end:
            log.error("delay offsets are not saved: the commit log is not durable up to %d", end)
            return
        for level, offset in progress.items():
            self.offsets.set_offset(level, offset)
        try:
            await self.offsets.persist()
        except OSError as error:
            log.error("delay offsets could not be saved, retrying: %s", error)

    def replace(self, content: bytes) -> None:
        """Replace the offsets by those of another broker (`offsets.encode()`); ProtocolError if they are malformed."""
        self.offsets.replace(content)
        for level in self.levels:
            self._next[level] = self.offsets.get(level)

    def _corrected(self, level: int, offset: int) -> int:
        """Return the nearest offset that the queue of a level has.

        Earlier messages are gone. An offset beyond the end (the log lost its end, or was replaced) would skip messages.
        """
        queue = self._store.queues.get(SCHEDULE_TOPIC, level - 1)
        low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        corrected = min(max(offset, low), high)
        if corrected != offset:
            log.error("level %d: offset %d is not in %d to %d, continuing at %d", level, offset, low, high, corrected)
        return corrected
