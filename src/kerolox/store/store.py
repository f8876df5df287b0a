"""The store put together: append, read, flush, recover."""

import asyncio
import contextlib
import logging
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TypeVar

import msgspec

from kerolox.message.errors import RecordError
from kerolox.message.peek import Peek, peek
from kerolox.message.record import MAGIC_V1, MAGIC_V2
from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.service import Service
from kerolox.store.arrivals import Arrivals
from kerolox.store.checkpoint import Checkpoint
from kerolox.store.commit_log import Appended, CommitLog, Draft
from kerolox.store.configuration import FlushDiskType, StoreConfig
from kerolox.store.consume_queue import ConsumeQueue, Entry
from kerolox.store.delays import parse_levels
from kerolox.store.dispatcher import Dispatcher
from kerolox.store.errors import NotStorable, StoreError, StoreFull, StoreReadOnly, SyncFailed
from kerolox.store.flusher import Flusher
from kerolox.store.index_file import IndexShape
from kerolox.store.key_index import KeyIndex
from kerolox.store.lock import take_lock
from kerolox.store.queues import Queues, check_name
from kerolox.store.reader import Damage
from kerolox.store.recovery import Recovered, recover
from kerolox.store.segments import OpenFiles, Segments

log = logging.getLogger(__name__)

T = TypeVar("T")

# Size, magic and physical offset of a record.
_HEAD = struct.Struct(">II20xq")
# A reader that finds nothing it wants comes back after so many entries, and others have their turn.
_ENTRIES_READ_MAX = 800


class GetStatus(Enum):
    """What came of reading a queue, under the names Java gives it."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class Got(msgspec.Struct, frozen=True, gc=False):
    """Records as they lie in the log, and where to go on reading."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes] = []


class Store(Service):
    """RocketMQ's files in one directory. Appending and reading are plain functions; waiting comes after."""

    def __init__(self, config: StoreConfig, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        self.config = config
        self._clock = clock or SystemClock()
        self._disk = disk or RealDisk()
        self._files = OpenFiles(self._disk, config.open_files_max)
        root = config.store_path_root_dir
        self._segments = Segments(self._files, config.commit_log_directory, config.mapped_file_size_commit_log)
        self.log = CommitLog(self._segments)
        self.queues = Queues(self._files, root / "consumequeue", config.mapped_file_size_consume_queue)
        self.index: KeyIndex | None = None
        if config.message_index_enable:
            shape = IndexShape(config.max_hash_slot_num, config.max_index_num)
            self.index = KeyIndex(self._disk, root / "index", self._clock, shape=shape)
        self.checkpoint = Checkpoint(self._disk, root / "checkpoint")
        self.arrivals = Arrivals()
        levels = parse_levels(config.message_delay_level)
        self.dispatcher = Dispatcher(self.log, self.queues, self.index, self.arrivals, levels)
        interval = config.flush_interval_commit_log / 1000
        self.flusher = Flusher(self.log, interval_seconds=interval, on_durable=self._follow)
        # Ranges of the log that hold no record; nothing of them is served.
        self.damages: list[Damage] = []
        self._abort = root / "abort"
        self._lock: int | None = None
        self._is_open = False
        # Why queues or index cannot follow the log for now, and whether they can no longer be known to be durable.
        self._lag: Exception | None = None
        self._is_behind_lost = False
        self._queue_offsets: dict[tuple[str, int], int] = {}
        self._gathered: list[tuple[Draft, asyncio.Future[Appended]]] = []

    # Life

    async def open(self) -> None:
        self.recover()

    def recover(self) -> Recovered:
        """Loads what is there and brings it to agree; StoreError, with the reason, if it cannot be."""
        root = self.config.store_path_root_dir
        try:
            return self._recover(root)
        except BaseException as error:
            self._release()
            if isinstance(error, OSError):
                raise StoreError(f"{root} could not be opened: {error}") from error
            raise

    def _recover(self, root: Path) -> Recovered:
        self._make_directories(root)
        if isinstance(self._disk, RealDisk):
            self._lock = take_lock(root / "lock")
        is_clean = self._disk.read(self._abort) is None
        if is_clean:
            self._disk.write(self._abort, b"")
            self._disk.sync(root)
        self._segments.load()
        self.queues.load()
        self.checkpoint.load()
        damage = self.index.load(None if is_clean else self.checkpoint.index_timestamp) if self.index else []
        recovered = recover(
            self._segments,
            self.dispatcher,
            self.queues,
            self.index,
            self.checkpoint,
            is_clean=is_clean,
            is_index_whole=not damage,
        )
        self.log.load(recovered.end_offset)
        self.log.sync(self._segments.first_offset, recovered.end_offset)
        self.flusher.load(recovered.end_offset)
        self.damages = recovered.damages
        self._queue_offsets = {key: queue.max_offset for key, queue in self.queues.items()}
        self._is_open = True
        log.info("opened %s: log up to %d, %d queues", root, self.log.end_offset, len(self.queues))
        return recovered

    def _make_directories(self, root: Path) -> None:
        is_new = not self._disk.names(root)
        for directory in (root, self.config.commit_log_directory, root / "consumequeue"):
            self._disk.make_directory(directory)
        self._disk.sync(root)
        self._disk.sync(self.config.commit_log_directory.parent)
        if is_new:
            for parent in root.parents:
                # One that may not be read was there before.
                with contextlib.suppress(PermissionError):
                    self._disk.sync(parent)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.flusher.run(), name="commit log flusher")
            tasks.create_task(self._run_behind(), name="queue and index flusher")

    async def _run_behind(self) -> None:
        while True:
            await self._clock.sleep(self.config.flush_interval_consume_queue / 1000)
            try:
                await self.flush_behind()
            except (OSError, StoreError) as error:
                # Queues and index can be made again from the log.
                log.error("queues and index could not be written, which is tried again: %s", error)

    async def close(self) -> None:
        """Makes everything durable; the next start then knows that this stop was clean."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            await self.flusher.close()
            await self.flush_behind()
            is_clean = self.flusher.failure is None and self.dispatcher.offset == self.log.end_offset
            if is_clean and not self._is_behind_lost:
                self._disk.remove(self._abort)
                self._disk.sync(self.config.store_path_root_dir)
        except OSError as error:
            raise StoreError(f"the store was not closed cleanly: {error}") from error
        finally:
            self._release()

    def _release(self) -> None:
        try:
            if self.index is not None:
                self.index.close()
        except OSError as error:
            log.error("the key index was not closed cleanly: %s", error)
        finally:
            self.checkpoint.close()
            self._files.close()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    async def flush_behind(self) -> None:
        """Writes and syncs queues and index, then says so in the checkpoint."""
        self._follow()
        offset, timestamp = self.dispatcher.offset, self.dispatcher.timestamp
        await self.flusher.flush()
        failures = [failure for queue in list(self.queues) if (failure := await self._flush_queue(queue))]
        if self.index is not None:
            flush = self.index.flush()
            index_timestamp = await in_thread(self._note_loss, flush.run)
        else:
            index_timestamp = timestamp
        if failures:
            raise failures[0]
        # After a sync that failed, the next start makes everything again that is newer than the last checkpoint.
        if self.flusher.durable_offset >= offset and not self._is_behind_lost:
            self.checkpoint.log_timestamp = self.checkpoint.queues_timestamp = timestamp
            self.checkpoint.index_timestamp = index_timestamp
            await in_thread(self._note_loss, self.checkpoint.flush)

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
                self._is_behind_lost |= sync.failure is not None
        except (OSError, SyncFailed) as error:
            return error
        return None

    def _note_loss(self, flush: Callable[[], T]) -> T:
        try:
            return flush()
        except OSError:
            self._is_behind_lost = True
            raise

    # Writing

    async def put(self, draft: Draft) -> tuple[Appended, bool]:
        """Returns where the draft came to lie, and whether it is as durable as the configuration promises.

        What several tasks put in one turn of the loop is written with one write. StoreReadOnly, StoreFull or
        NotStorable if it is not stored.
        """
        self._check(draft)
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._append_gathered)
        self._gathered.append((draft, future))
        appended = await future
        if self.config.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
            return appended, True
        timeout = self.config.sync_flush_timeout / 1000
        return appended, await self.flusher.wait(appended.end_offset, timeout_seconds=timeout)

    def _append_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        appended: list[Appended] = []
        failure: Exception = StoreFull("the disk has no room for another file of the commit log")
        try:
            appended = self._append([draft for draft, _ in gathered])
        except Exception as error:
            # Whatever it is, those who wait must learn of it.
            failure = error
        for (_, future), place in zip(gathered, appended, strict=False):
            if not future.done():
                future.set_result(place)
        for _, future in gathered[len(appended) :]:
            if not future.done():
                future.set_exception(failure)

    def append(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Appends drafts with as few writes as possible; fewer places than drafts come back if the disk is full."""
        for draft in drafts:
            self._check(draft)
        return self._append(drafts)

    def _append(self, drafts: Sequence[Draft]) -> list[Appended]:
        if not self._is_open:
            raise StoreReadOnly("the store is not open")
        if self.flusher.failure is not None:
            raise self.flusher.failure
        if self._lag is not None:
            self._follow()
            if self._lag is not None:
                raise StoreFull(f"queues and index cannot follow the commit log: {self._lag}") from self._lag
        wanted: dict[tuple[str, int], int] = {}
        queue_offsets = [self._next_offset(draft, wanted) for draft in drafts]
        try:
            appended = self.log.append(drafts, queue_offsets, self._clock.millis())
        except OSError as error:
            raise StoreFull(f"the commit log could not be written: {error}") from error
        except SyncFailed as error:
            self.flusher.fail(error)
            raise
        for draft, place in zip(drafts, appended, strict=False):
            if draft.is_queued:
                self._queue_offsets[draft.topic, draft.queue_id] = place.queue_offset + len(draft.starts)
        if self.config.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
            self._follow()
        return appended

    def _check(self, draft: Draft) -> None:
        size, size_max = len(draft.records), self.log.draft_size_max
        if size > size_max:
            raise NotStorable(f"{size} bytes to be stored together, at most {size_max} fit into a file")
        if (draft.topic, draft.queue_id) not in self._queue_offsets:
            check_name(draft.topic, draft.queue_id)

    def _next_offset(self, draft: Draft, wanted: dict[tuple[str, int], int]) -> int:
        if not draft.is_queued:
            return 0
        key = draft.topic, draft.queue_id
        offset = wanted.get(key)
        if offset is None:
            offset = self._queue_offsets.get(key, 0)
        wanted[key] = offset + len(draft.starts)
        return offset

    def _follow(self) -> None:
        """Shows readers what they may see: under SYNC_FLUSH nothing that a power cut could take back."""
        is_sync = self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        try:
            self.dispatcher.follow(self.flusher.durable_offset if is_sync else self.log.end_offset)
        except (OSError, RecordError, StoreError) as error:
            # What is in the log is stored, and is shown when this can be done again.
            if self._lag is None:
                log.error("queues and index cannot follow the commit log at %d: %s", self.dispatcher.offset, error)
            self._lag = error
        else:
            self._lag = None

    # Reading

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        count_max: int = 32,
        bytes_max: int = 256 * 1024,
        matches: Callable[[Entry], bool] | None = None,
    ) -> Got:
        """Returns records of a queue from `queue_offset` on; the first always, the rest as far as the bounds allow.

        StoreError if they could not be read.
        """
        queue = self.queues.get(topic, queue_id)
        if queue is None:
            return Got(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if high == 0:
            return Got(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if queue_offset < low:
            return Got(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if queue_offset >= high:
            is_next = queue_offset == high
            status = GetStatus.OFFSET_OVERFLOW_ONE if is_next else GetStatus.OFFSET_OVERFLOW_BADLY
            return Got(status, high, low, high)
        records: list[bytes] = []
        size, next_offset, is_removed = 0, queue_offset, False
        for entry in self._entries(queue, queue_offset, min(high - queue_offset, max(_ENTRIES_READ_MAX, count_max))):
            if records and (len(records) >= count_max or size + entry.size > bytes_max):
                break
            next_offset += 1
            if entry.is_filler or (matches is not None and not matches(entry)):
                continue
            record = self.record_at(entry.physical_offset, entry.size)
            if record is None:
                is_removed = True
                continue
            records.append(record)
            size += entry.size
        if records:
            return Got(GetStatus.FOUND, next_offset, low, high, records)
        status = GetStatus.MESSAGE_WAS_REMOVING if is_removed else GetStatus.NO_MATCHED_MESSAGE
        return Got(status, next_offset, low, high)

    def _entries(self, queue: ConsumeQueue, queue_offset: int, count: int) -> Iterator[Entry]:
        try:
            yield from queue.entries(queue_offset, count)
        except OSError as error:
            raise StoreError(f"a consume queue could not be read: {error}") from error

    def record_at(self, physical_offset: int, size: int) -> bytes | None:
        """Returns the bytes of a record, or None if the log no longer has it, or never had, or it is damaged."""
        record = self._read(physical_offset, size)
        if len(record) != size or size < _HEAD.size:
            return None
        said_size, magic, said_offset = _HEAD.unpack_from(record)
        if said_size != size or said_offset != physical_offset or magic not in (MAGIC_V1, MAGIC_V2):
            return None
        if self.damages and self._is_damaged(physical_offset, physical_offset + size):
            return None
        return record

    def _is_damaged(self, start: int, end: int) -> bool:
        return any(damage.offset < end and start < damage.end_offset for damage in self.damages)

    def _read(self, physical_offset: int, size: int) -> bytes:
        if not self.log.first_offset <= physical_offset < self.log.end_offset:
            return b""
        try:
            return self.log.read(physical_offset, size)
        except OSError as error:
            raise StoreError(f"the commit log could not be read at {physical_offset}: {error}") from error

    def find(self, topic: str, key: bytes, *, count_max: int = 32) -> list[Peek]:
        """Returns the newest messages with this key or unique key; their keys were compared, not only hashes."""
        if self.index is None:
            return []
        found: list[Peek] = []
        for offset in self._query(self.index, topic, key, count_max):
            record = self.record_at(offset, int.from_bytes(self._read(offset, 4)))
            if record is not None:
                known = peek(record)
                if known.topic == topic and (known.unique_key == key or key in known.keys.split(b" ")):
                    found.append(known)
        return found

    def _query(self, index: KeyIndex, topic: str, key: bytes, count_max: int) -> list[int]:
        try:
            return index.query(topic, key, count_max)
        except OSError as error:
            raise StoreError(f"the key index could not be read: {error}") from error
