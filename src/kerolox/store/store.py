"""The store put together: append, read, flush, recover."""

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from kerolox.errors import reason
from kerolox.message.errors import RecordError
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.server_loop import at_end_of_turn
from kerolox.runtime.service import Service
from kerolox.store.arrivals import Arrivals
from kerolox.store.behind import Behind
from kerolox.store.checkpoint import Checkpoint
from kerolox.store.cleaning.deleted_topics import DELETED_TOPICS, DeletedTopics
from kerolox.store.cleaning.retention import Retention
from kerolox.store.cleaning.topics import Topics
from kerolox.store.configuration import PAGE_SIZE, FlushDiskType, StoreConfig
from kerolox.store.damages import FILE_NAME as DAMAGES_NAME
from kerolox.store.damages import Damages
from kerolox.store.delay.delays import parse_levels
from kerolox.store.dispatcher import Dispatcher
from kerolox.store.errors import NotStorable, StoreBusy, StoreError, StoreFull, StoreReadOnly, SyncFailed
from kerolox.store.keys.index_layout import IndexShape
from kerolox.store.keys.key_index import KeyIndex
from kerolox.store.lock import Lock, take_lock
from kerolox.store.log.cold import ColdReads
from kerolox.store.log.commit_log import Appended, CommitLog, Draft
from kerolox.store.log.flusher import Flusher
from kerolox.store.log.preparer import Preparer
from kerolox.store.log.promises import One, Promises, Sender, Senders, tell_refused, tell_stored
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.queues import Queues, check_name, warn_of_batches
from kerolox.store.reader import Reader
from kerolox.store.recovery import Recovered, recover
from kerolox.store.stall import Stall, size_of

log = logging.getLogger(__name__)

# So much of the log is dispatched at once after queues or index could not follow, and others have their turn.
_CATCH_UP_SIZE = 2 * 1024 * 1024
# So many syncs of the log are under way at once where each takes long.
_SYNCS_MAX = 3


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
        self.queues = Queues(
            self._files,
            root / "consumequeue",
            config.mapped_file_size_consume_queue,
            ext_directory=root / "consumequeue_ext" if config.enable_consume_queue_ext else None,
            ext_segment_size=config.mapped_file_size_consume_queue_ext,
        )
        self.index: KeyIndex | None = None
        if config.message_index_enable:
            shape = IndexShape(config.max_hash_slot_num, config.max_index_num)
            self.index = KeyIndex(self._disk, root / "index", self._clock, shape=shape)
        self.checkpoint = Checkpoint(self._disk, root / "checkpoint")
        self.damages = Damages(self._disk, root / DAMAGES_NAME)
        self.arrivals = Arrivals()
        levels = parse_levels(config.message_delay_level)
        self._deleted = DeletedTopics(self._disk, root / "config" / DELETED_TOPICS)
        self.dispatcher = Dispatcher(self.log, self.queues, self.index, self.arrivals, levels, self._deleted)
        self._promises = Promises(timeout_seconds=config.sync_flush_timeout / 1000)
        self.flusher = Flusher(
            self.log,
            interval_seconds=config.flush_interval_commit_log / 1000,
            thorough_seconds=config.flush_commit_log_thorough_interval / 1000,
            unsynced_size_min=config.flush_commit_log_least_pages * PAGE_SIZE,
            syncs_max=_SYNCS_MAX,
            on_durable=self._become_durable,
            on_failed=self._promises.fail,
        )
        self.preparer = Preparer(self._segments, self.log, self._clock, on_sync_failed=self.flusher.fail)
        self.behind = Behind(
            self.dispatcher,
            self.flusher,
            self.queues,
            self.index,
            self.checkpoint,
            self._clock,
            interval_seconds=config.flush_interval_consume_queue / 1000,
            thorough_seconds=config.flush_consume_queue_thorough_interval / 1000,
            unsynced_size_max=config.flush_consume_queue_least_pages * PAGE_SIZE,
            follow=self._follow,
            marks=lambda: self.log.marks.copy(self.log.first_offset),
        )
        self.reader = Reader(self.log, self.queues, self.index, config, self._segments)
        self.cold = ColdReads(self._files, config.cold_read_threads)
        self.retention = Retention(
            config, self._disk, self._clock, self.log, self.queues, self.index, self.behind, self._deleted
        )
        self._abort = root / "abort"
        self._lock: Lock | None = None
        self._is_open = False
        # Why queues or index cannot follow the log for now.
        self._lag: Exception | None = None
        self._queue_offsets: dict[tuple[str, int], int] = {}
        self.topics = Topics(
            self.log, self.queues, self.behind, self.arrivals, self._deleted, self._queue_offsets, self._clear_stray
        )
        # Under SYNC_FLUSH: what was appended, and is not to be seen before it is durable.
        self._unseen: deque[tuple[Sequence[Draft], Sequence[Appended]]] = deque()
        self._gathered: list[tuple[Sequence[Draft], Senders]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        # How long senders wait for the next file of the log before they are refused.
        self.patience_seconds: Callable[[], float] = lambda: float("inf")
        # Called when senders have been told, so that what they answer need not wait for its turn.
        self.on_told: Callable[[], None] = lambda: None
        # Since when, and for whom, there is no file to append to.
        self._stall: Stall | None = None
        self._awaited: asyncio.Task[OSError | None] | None = None
        self._is_sync = config.flush_disk_type is FlushDiskType.SYNC_FLUSH

    # Life

    async def open(self) -> None:
        self.recover()
        # Else the first who send would have to wait for it.
        await self.preparer.prepare()

    def recover(self) -> Recovered:
        """Loads what is there and brings it to agree; StoreError, with the reason, if it cannot be."""
        root = self.config.store_path_root_dir
        try:
            return self._recover(root)
        except BaseException as error:
            self._release()
            if isinstance(error, OSError):
                raise StoreError(f"{root} could not be opened: {reason(error)}") from error
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
        # A process that was killed may have made a file, and not come to sync its name.
        self._disk.sync(self.config.commit_log_directory)
        self._deleted.load()
        self.queues.load()
        warn_of_batches(self._disk, root)
        self.topics.load()
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
            marks=self.log.marks,
        )
        self.log.load(recovered.end_offset)
        self.log.sync(self._segments.first_offset, recovered.end_offset)
        self.flusher.load(recovered.end_offset)
        self._lag = recovered.lag
        self.damages.load()
        self.damages.note(recovered.damages, first_offset=self._segments.first_offset, read_from=recovered.start_offset)
        self.reader.damages = self.damages.known
        self._queue_offsets.update({key: queue.max_offset for key, queue in self.queues.items()})
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
            tasks.create_task(self.behind.run(), name="queue and index flusher")
            tasks.create_task(self.retention.run(), name="retention")

    async def close(self) -> None:
        """Makes everything durable; the next start then knows that this stop was clean."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            await self.preparer.close()
            # What was refused is no part of the log, and the next start need not wonder about it.
            with contextlib.suppress(OSError):
                self.log.clear_stray()
            await self.flusher.close()
            await self.behind.flush()
            is_clean = self.flusher.failure is None and self.dispatcher.offset == self.log.end_offset
            if is_clean and not self.behind.is_lost:
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
        except (OSError, SyncFailed) as error:
            log.error("the key index was not closed cleanly: %s", error)
        finally:
            self.checkpoint.close()
            self.cold.close()
            self._files.close()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def _clear_stray(self) -> None:
        try:
            self.log.clear_stray()
        except SyncFailed as error:
            self.flusher.fail(error)
            raise

    def append_offset(self, topic: str, queue_id: int) -> int:
        """Returns the queue offset that the next message gets; readers may not see all of those before it yet."""
        return self._queue_offsets.get((topic, queue_id), 0)

    # Writing

    @property
    def is_stalled(self) -> bool:
        """Whether senders wait for the next file of the log."""
        return self._stall is not None

    async def put(self, draft: Draft) -> tuple[Appended, bool]:
        """Returns where the draft came to lie, and whether it is as durable as the configuration promises.

        StoreReadOnly, StoreFull or NotStorable if it is not stored.
        """
        waiting = _Waiting()
        self.submit(draft, waiting)
        return await waiting.future

    def submit(self, draft: Draft, sender: Sender) -> None:
        """Has the draft stored; the sender is told, soon, what `put` would return or raise.

        What is submitted in one turn of the loop is written with one write, before any of its senders is told.
        NotStorable at once, and StoreBusy if too much waits already.
        """
        self.submit_all([draft], One(sender))

    def submit_all(self, drafts: Sequence[Draft], senders: Senders, *, at_once: bool = False) -> None:
        """The same of several that are all, or none of them, to wait until they are durable.

        With `at_once` they, and all that were submitted before, are written now.
        """
        for draft in drafts:
            self._check(draft)
        if self._is_sync or self._stall is not None:
            self._admit(drafts)
        is_first = not self._gathered
        self._gathered.append((drafts, senders))
        if at_once:
            self._append_gathered()
        elif is_first:
            # Asked for once: to ask is a system call.
            self._loop = self._loop or asyncio.get_running_loop()
            at_end_of_turn(self._loop, self._append_gathered)

    def _admit(self, drafts: Sequence[Draft]) -> None:
        waiting = 0 if self._stall is None else self._stall.size
        if self._is_sync and self.flusher.failure is None:
            # Whether its sender waits or not, it is kept in memory until it is durable.
            waiting += self.log.end_offset - self.flusher.durable_offset
        bound = self.config.put_bytes_pending_max
        if waiting and waiting + size_of(drafts) > bound:
            raise StoreBusy(f"{waiting} bytes of messages wait to be stored, at most {bound} allowed")
        if self._stall is not None:
            self._stall.note(drafts)

    def _append_gathered(self, no_file: OSError | None = None) -> None:
        if self.preparer.is_due and no_file is None and self._awaits_file():
            return
        if self._stall is not None:
            self._stall.end()
            self._stall = None
        gathered, self._gathered = self._gathered, []
        if not gathered:
            # They did not wait for the next turn.
            return
        appended: list[Appended] = []
        failure: Exception = StoreFull("the disk has no room for another file of the commit log")
        drafted = gathered[0][0]
        if len(gathered) > 1:
            drafted = list(chain.from_iterable([drafts for drafts, _ in gathered]))
        try:
            appended = self._append(drafted, no_file)
        except Exception as error:
            # Whatever it is, those who wait must learn of it.
            failure = error
        start = 0
        for drafts, senders in gathered:
            places = appended[start : start + len(drafts)]
            start += len(drafts)
            if places and self._is_sync and drafts[0].is_awaited:
                self._promises.add(0, places, senders)
            elif places:
                tell_stored(senders, 0, places, is_durable=True)
            if len(places) < len(drafts):
                tell_refused(senders, len(places), len(drafts) - len(places), failure)
        if self._is_sync and appended:
            # Also where no sender waits: readers see it when it is durable.
            self.flusher.wake()
        # Nobody can ask for it before this turn ends, and those who sent it need not wait for what is left to do.
        self.on_told()
        if appended:
            self._show(drafted, appended)

    def _become_durable(self) -> None:
        self._promises.settle(self.flusher.durable_offset)
        self.on_told()
        unseen = self._unseen
        while unseen and unseen[0][1][-1].end_offset <= self.flusher.durable_offset:
            made_known = unseen.popleft()
            if self._lag is None:
                self._follow(*made_known)
        self._follow()

    def _awaits_file(self) -> bool:
        """Has the next file of the log made; True if what was gathered is appended only when that is done."""
        if not self._is_open or self.flusher.failure is not None:
            return False
        is_needed = not self.log.has_room(sum(size_of(drafts) for drafts, _ in self._gathered))
        preparing = self.preparer.begin(is_needed=is_needed)
        if is_needed and preparing is not None and preparing is not self._awaited:
            self._awaited = preparing
            preparing.add_done_callback(self._go_on)
        if is_needed and self._stall is None:
            self._stall = Stall(self._gathered, self.patience_seconds)
        return is_needed

    def _go_on(self, preparing: asyncio.Task[OSError | None]) -> None:
        self._awaited = None
        is_ended = not preparing.cancelled() and preparing.exception() is None
        self._append_gathered(preparing.result() if is_ended else OSError("the next file was not made"))

    def append(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Appends drafts with as few writes as possible; fewer places than drafts come back if the disk is full."""
        for draft in drafts:
            self._check(draft)
        appended = self._append(drafts)
        self._show(drafts, appended)
        if self.preparer.is_due:
            # Who appends without waiting would otherwise make the next file on the event loop.
            self.preparer.begin_early()
        return appended

    def _append(self, drafts: Sequence[Draft], no_file: OSError | None = None) -> list[Appended]:
        if not self._is_open:
            raise StoreReadOnly("the store is not open")
        if self.flusher.failure is not None:
            raise self.flusher.failure
        if self.retention.refusal is not None:
            raise StoreFull(self.retention.refusal)
        if self._lag is not None:
            self._follow()
            if self._lag is not None:
                raise StoreFull(f"queues and index cannot follow the commit log: {self._lag}") from self._lag
        # What the next in each queue gets, if all are appended.
        wanted: dict[tuple[str, int], int] = {}
        queue_offsets = [_numbered(draft, wanted, self._queue_offsets) for draft in drafts]
        try:
            appended = self.log.append(drafts, queue_offsets, self._clock.millis(), no_file)
        except OSError as error:
            self.retention.note(error)
            raise StoreFull(f"the commit log could not be written: {error}") from error
        except SyncFailed as error:
            self.flusher.fail(error)
            raise
        if len(appended) < len(drafts):
            wanted = {}
            for draft in drafts[: len(appended)]:
                _numbered(draft, wanted, self._queue_offsets)
        self._queue_offsets.update(wanted)
        if self._is_sync and appended:
            self._unseen.append((drafts, appended))
        return appended

    def _show(self, drafts: Sequence[Draft], appended: Sequence[Appended]) -> None:
        """Shows readers what was just appended, unless it has to be durable first."""
        if not self._is_sync and self._is_open:
            self._follow(drafts, appended)

    def _check(self, draft: Draft) -> None:
        size, size_max = len(draft.records), self.log.draft_size_max
        if size > size_max:
            raise NotStorable(f"{size} bytes to be stored together, at most {size_max} fit into a file")
        for queue_id in set(draft.queue_ids or (draft.queue_id,)):
            if (draft.topic, queue_id) not in self._queue_offsets:
                check_name(draft.topic, queue_id)

    def _follow(self, drafts: Sequence[Draft] = (), appended: Sequence[Appended] = ()) -> bool:
        """Shows readers what they may see, such as what was just appended.

        Under SYNC_FLUSH that is nothing that a power cut could take back. True if more could be shown at once, but
        others should have their turn.
        """
        try:
            end_offset = self.flusher.durable_offset if self._is_sync else self.log.end_offset
            if appended:
                self.dispatcher.dispatch_appended(drafts, appended)
            else:
                # What was left behind for want of room may be much.
                self.dispatcher.follow(end_offset, size_max=sys.maxsize if self._lag is None else _CATCH_UP_SIZE)
            if self.queues.backlog.entries > self.config.queue_entries_pending_max:
                self.queues.flush()
        except Exception as error:
            # Whatever it is: what is in the log is stored, its senders know it, and it is shown when that can be done.
            if self._lag is None:
                is_known = isinstance(error, OSError | RecordError | StoreError)
                log.error(
                    "queues and index cannot follow the commit log at %d: %s",
                    *(self.dispatcher.offset, error),
                    exc_info=None if is_known else error,
                )
            self._lag = error
            self.retention.note(error)
            return False
        if self.dispatcher.offset < end_offset:
            return True
        self._lag = None
        return False


def _numbered(draft: Draft, wanted: dict[tuple[str, int], int], known: Mapping[tuple[str, int], int]) -> int:
    """Returns the queue offset of a draft's first record, and gives each its own if they are not all of one queue.

    What the next in each queue gets is `wanted`, or else `known`.
    """
    if not draft.is_queued:
        return 0
    topic = draft.topic
    if draft.queue_ids is None:
        key = topic, draft.queue_id
        offset = wanted[key] if key in wanted else known.get(key, 0)
        wanted[key] = offset + len(draft.starts)
        return offset
    nexts: dict[int, int] = {}
    offsets: list[int] = []
    for queue_id in draft.queue_ids:
        if queue_id in nexts:
            offset = nexts[queue_id]
        else:
            key = topic, queue_id
            offset = wanted[key] if key in wanted else known.get(key, 0)
        offsets.append(offset)
        nexts[queue_id] = offset + 1
    for queue_id, offset in nexts.items():
        wanted[topic, queue_id] = offset
    draft.queue_offsets = offsets
    return offsets[0]


class _Waiting:
    """A sender that is a task."""

    def __init__(self) -> None:
        self.future: asyncio.Future[tuple[Appended, bool]] = asyncio.get_running_loop().create_future()

    def stored(self, appended: Appended, is_durable: bool) -> None:
        if not self.future.done():
            self.future.set_result((appended, is_durable))

    def refused(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
