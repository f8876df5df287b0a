"""Delivers delayed messages: when one is due, it is put into the queue that it was sent to."""

import asyncio
import logging

from kerolox.errors import KeroloxError
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.service import Service
from kerolox.store.configuration import FlushDiskType
from kerolox.store.delay.delays import SCHEDULE_TOPIC, parse_levels
from kerolox.store.delay.due import DueMessages
from kerolox.store.delay.offsets import DelayOffsets
from kerolox.store.errors import StoreFull
from kerolox.store.store import Store

log = logging.getLogger(__name__)

_RETRY_SECONDS = 10.0
# A wall clock that was set is noticed after this time.
_LOOK_AGAIN_SECONDS = 1.0
_ARRIVAL_SECONDS = 3600.0


class ScheduledDelivery(Service):
    """One task for each level. To be opened after its store and before anything is put into it; closed before it.

    Nothing comes early, nothing is lost, and what was delivered before a crash is recognised by its unique key after
    it. Only a message without one, or a store without an index, may see the deliveries of the last
    `flushDelayOffsetInterval` twice.
    """

    def __init__(self, store: Store, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self.levels = parse_levels(store.config.message_delay_level)
        self.offsets = DelayOffsets(store.config.store_path_root_dir, self._clock, disk or RealDisk())
        # By level, what is put back next. The log may not yet have made durable what lies before it.
        self._next: dict[int, int] = {}
        # The end of the last record that was put back.
        self._end_offset = 0
        self._due = DueMessages(store.reader, self.levels, draft_size_max=store.log.draft_size_max)

    # Life

    async def open(self) -> None:
        self.load()

    def load(self) -> None:
        """Reads how far each level has come; StoreDamaged if that cannot be read."""
        self.offsets.load()
        for level in self.levels:
            self._next[level] = self._corrected(level, self.offsets.get(level))
        store = self._store
        waiting = {queue_id + 1: queue for (topic, queue_id), queue in store.queues.items() if topic == SCHEDULE_TOPIC}
        for level, queue in waiting.items():
            if level not in self.levels and queue.max_offset > queue.min_offset:
                log.warning("messages of level %d wait, and messageDelayLevel has no such level", level)
        last_timestamp = max(store.dispatcher.timestamp, store.checkpoint.log_timestamp)
        self._due.doubt({level: queue.max_offset for level, queue in waiting.items()}, last_timestamp)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._persist_often(), name="delay offsets")
            for level in self.levels:
                tasks.create_task(self._attend(level), name=f"delay level {level}")

    async def close(self) -> None:
        await self.persist()

    # Delivering

    async def _attend(self, level: int) -> None:
        while True:
            try:
                seconds = self.deliver(level)
                if seconds is None:
                    # Nothing was awaited since the end of the queue was seen, so that no arrival is missed.
                    await self._store.arrivals.wait(SCHEDULE_TOPIC, level - 1, seconds=_ARRIVAL_SECONDS)
                    continue
                await self._settle(level)
            except (KeroloxError, OSError) as error:
                log.error("level %d is delivered again in %d s: %s", level, _RETRY_SECONDS, error)
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await self._clock.sleep(min(seconds, _LOOK_AGAIN_SECONDS))
        else:
            await asyncio.sleep(0)

    def deliver(self, level: int) -> float | None:
        """Puts back what is due, as much as one write should carry, and returns after how many seconds to come again.

        None means that there is nothing before the next arrival. StoreError if something is due and was not stored:
        it is tried again by the next call.
        """
        queue = self._store.queues.get(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            return None
        offset = self._next[level] = self._corrected(level, self._next[level])
        due = self._due.find(level, queue, offset, self._clock.millis())
        if due.drafts:
            places = self._store.append(due.drafts)
            if places:
                self._end_offset = places[-1].end_offset
                self._next[level] = due.next_offsets[len(places) - 1]
            if len(places) < len(due.drafts):
                raise StoreFull("the disk has no room for another file of the commit log")
        self._next[level] = due.end_offset
        return due.seconds if due.end_offset == offset else 0.0

    async def _settle(self, level: int) -> None:
        """Waits until what was put back is as durable as the configuration promises."""
        if self._store.config.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
            return
        end, timeout = self._end_offset, self._store.config.sync_flush_timeout / 1000
        # What is in the log is not put there again, however long the disk takes.
        while not await self._store.flusher.wait(end, timeout_seconds=timeout):
            log.warning("level %d: what was delivered is not durable after %.1f s", level, timeout)

    # How far it has come

    @property
    def progress(self) -> dict[int, int]:
        """By level, the offset of the next message to be delivered; `offsets` follows when that is durable."""
        return dict(self._next)

    async def _persist_often(self) -> None:
        while True:
            await self._clock.sleep(self._store.config.flush_delay_offset_interval / 1000)
            await self.persist()

    async def persist(self) -> None:
        """Writes down how far each level has come, once the log has made durable what was delivered up to there.

        Else a power cut could take the delivery and leave the offset behind it.
        """
        reached, end = dict(self._next), self._end_offset
        await self._store.flusher.flush()
        if self._store.flusher.durable_offset < end:
            log.error("delay offsets are not written: the commit log is not durable up to %d", end)
            return
        for level, offset in reached.items():
            self.offsets.reach(level, offset)
        try:
            await self.offsets.persist()
        except OSError as error:
            log.error("delay offsets could not be written, which is tried again: %s", error)

    def replace(self, content: bytes) -> None:
        """Takes over the offsets of another broker, in the form of `offsets.encode()`; ProtocolError if it is none."""
        self.offsets.replace(content)
        for level in self.levels:
            self._next[level] = self.offsets.get(level)

    def _corrected(self, level: int, offset: int) -> int:
        """Returns the nearest offset that the level's queue has; what is not in it can no longer be delivered.

        One beyond its end would skip messages to come: the log lost its end, or is another.
        """
        queue = self._store.queues.get(SCHEDULE_TOPIC, level - 1)
        low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        corrected = min(max(offset, low), high)
        if corrected != offset:
            log.error("level %d: offset %d is outside of %d to %d, goes on at %d", level, offset, low, high, corrected)
        return corrected
