"""Rebuilds the damaged entries of consume queues from the commit log while the store is in use."""

import asyncio
import logging
from collections.abc import Iterator
from typing import NamedTuple

from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.store.dispatcher import Dispatcher
from kerolox.store.errors import StoreError
from kerolox.store.log.records import Records
from kerolox.store.log.scan import Scan
from kerolox.store.log.segments import Segments
from kerolox.store.queue.consume_queue import ENTRY, ENTRY_SIZE, FILLER, ConsumeQueue
from kerolox.store.queue.entry_check import is_of_queue
from kerolox.store.queue.lookup import QueueName
from kerolox.store.queue.queues import Queues

log = logging.getLogger(__name__)

Key = tuple[str, int]

# Bytes of the log read at most while a consumer waits; a larger repair runs in the background.
INLINE_SIZE_MAX = 8 * 1024 * 1024
# Time after which a failed repair is tried again.
_RETRY_SECONDS = 10


class _Damage(NamedTuple):
    """Entries to rebuild, and the range of the log that holds their records."""

    start: int
    end: int
    physical_start: int
    physical_end: int


class QueueRepair(Service):
    """Repairs small damage at once and large damage in `run`, in steps between which other tasks run."""

    def __init__(
        self,
        segments: Segments,
        records: Records,
        queues: Queues,
        dispatcher: Dispatcher,
        clock: Clock,
        *,
        inline_size_max: int = INLINE_SIZE_MAX,
    ) -> None:
        self._segments = segments
        self._records = records
        self._queues = queues
        self._dispatcher = dispatcher
        self._clock = clock
        self._inline_size_max = inline_size_max
        # Damage that `run` has yet to repair, and the times before which failed repairs are not retried.
        self._wanted: dict[Key, _Damage] = {}
        self._failed: dict[Key, float] = {}
        self._is_wanted = asyncio.Event()

    def repair(self, key: Key, queue: ConsumeQueue, start: int, end: int) -> None:
        """Rebuild the entries from `start` to `end` and damaged ones around them.

        StoreError if the repair failed, failed recently or runs in the background.
        """
        if self._failed.get(key, 0) > self._clock.monotonic():
            raise StoreError(f"consume queue {_text(key)} is damaged and could not be repaired")
        if key in self._wanted:
            raise _being_rebuilt(key)
        try:
            damage = self._extent(key, queue, start, min(end, queue.trusted_offset))
            if damage.physical_end - damage.physical_start > self._inline_size_max:
                self._wanted[key] = damage
                self._is_wanted.set()
                log.warning(
                    "consume queue %s: entries from %d to %d do not match the commit log; "
                    "they are rebuilt from %d MiB of it in the background",
                    _text(key),
                    damage.start,
                    damage.end,
                    damage.physical_end - damage.physical_start >> 20,
                )
                raise _being_rebuilt(key)
            for _ in self._rebuild(key, queue, damage):
                pass
        except OSError as error:
            self._note_failed(key, error)
            raise StoreError(f"consume queue {_text(key)} could not be repaired: {error}") from error

    async def run(self) -> None:
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            await self.repair_wanted()

    async def repair_wanted(self) -> None:
        """Do the repairs that were too large to be done at once."""
        for key, damage in list(self._wanted.items()):
            try:
                queue = self._queues.get(*key)
                if queue is not None:
                    for _ in self._rebuild(key, queue, damage):
                        await asyncio.sleep(0)
            except OSError as error:
                self._note_failed(key, error)
            finally:
                self._wanted.pop(key, None)

    def _note_failed(self, key: Key, error: OSError) -> None:
        log.error("consume queue %s is damaged and could not be repaired: %s", _text(key), error)
        self._failed[key] = self._clock.monotonic() + _RETRY_SECONDS

    def _extent(self, key: Key, queue: ConsumeQueue, start: int, end: int) -> _Damage:
        """Find valid entries before and after the damaged ones, in doubling steps, and so the range of the log."""
        first, step = queue.min_offset, 1
        physical_start, physical_end = self._segments.first_offset, self._dispatcher.offset
        while start > first:
            start = max(first, start - step)
            if self._is_good(key, queue, start):
                physical_start = _entry_end(queue, start)
                start += 1
                break
            step *= 2
        limit, step = queue.trusted_offset, 1
        while end < limit:
            if self._is_good(key, queue, end):
                break
            end = min(limit, end + step)
            step *= 2
        following = queue.entry(end) if end < queue.max_offset else None
        if following is not None and not following.is_filler:
            physical_end = following.physical_offset
        return _Damage(start, end, physical_start, max(physical_start, physical_end))

    def _is_good(self, key: Key, queue: ConsumeQueue, queue_offset: int) -> bool:
        entry = queue.entry(queue_offset)
        if entry is None or entry.is_filler or entry.size > self._records.size_max:
            return False
        record = self._records.at(entry.physical_offset, entry.size)
        return record is not None and is_of_queue(record, *name_of(key), queue_offset)

    def _rebuild(self, key: Key, queue: ConsumeQueue, damage: _Damage) -> Iterator[None]:
        """Read the log and overwrite the entries; yields where other tasks may run."""
        count = damage.end - damage.start
        before = b"".join(_blocks(queue, damage.start, count))
        # Entries stay fillers if the log does not have their record.
        data = bytearray(FILLER * count)
        scan = Scan(self._segments)
        is_empty = damage.physical_start >= damage.physical_end
        for run in scan.columns(damage.physical_start) if not is_empty else ():
            if key[0] in run.topics:
                for record in run.summaries():
                    entered = self._dispatcher.entry_of(record)
                    at = record.queue_offset - damage.start
                    if (record.topic, record.queue_id) == key and entered is not None and 0 <= at < count:
                        ENTRY.pack_into(data, at * ENTRY_SIZE, *entered)
            if run.end_offset >= damage.physical_end:
                # The bytes after it may be written right now.
                break
            yield
        # If the record itself is damaged its old entry is kept, so that its position stays known.
        self._note_damages(scan)
        changed = lost = 0
        for at in range(0, len(data), ENTRY_SIZE):
            old = before[at : at + ENTRY_SIZE]
            if data[at : at + ENTRY_SIZE] == FILLER:
                physical_offset, size, _ = ENTRY.unpack(old)
                lost += 1
                if 0 < size <= self._records.size_max and self._records.is_damaged(physical_offset, size):
                    data[at : at + ENTRY_SIZE] = old
            changed += data[at : at + ENTRY_SIZE] != old
        if self._queues.get(*key) is queue and queue.max_offset >= damage.end:
            # The queue was neither deleted nor reset meanwhile; but its first file may have expired.
            start = max(damage.start, queue.first_offset)
            queue.replace(start, bytes(data[(start - damage.start) * ENTRY_SIZE :]))
            queue.note_checked(damage.start, damage.end)
            log.warning(
                "consume queue %s: rebuilt %d of the entries from %d to %d, which did not match the commit log; "
                "%d messages are not in the log",
                _text(key),
                changed,
                damage.start,
                damage.end,
                lost,
            )

    def _note_damages(self, scan: Scan) -> None:
        for damage in scan.damages:
            # A file deleted meanwhile is not damage.
            if damage.offset >= self._segments.first_offset and not self._records.is_damaged(damage.offset):
                log.error("no record from %d to %d of the commit log: %s", *damage)
                self._records.damages.append(damage)


def name_of(key: Key) -> QueueName:
    """Return topic and queue id as the records of a queue contain them."""
    return QueueName(key[0].encode(), key[1])


def _blocks(queue: ConsumeQueue, start: int, count: int) -> Iterator[bytes]:
    end = start + count
    while start < end and (data := queue.read(start, end - start)):
        yield data
        start += len(data) // ENTRY_SIZE


def _entry_end(queue: ConsumeQueue, queue_offset: int) -> int:
    entry = queue.entry(queue_offset)
    assert entry is not None
    return entry.physical_offset + entry.size


def _text(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def _being_rebuilt(key: Key) -> StoreError:
    return StoreError(f"consume queue {_text(key)} is damaged and being rebuilt from the commit log")
