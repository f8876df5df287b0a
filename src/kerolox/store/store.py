"""The message store: recovers its files, appends messages and serves readers (DefaultMessageStore)."""

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from kerolox.errors import reason
from kerolox.message.errors import RecordError
from kerolox.message.records.columns import Columns
from kerolox.message.records.summary import RecordSummary
from kerolox.message.sysflag import is_queued
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.event_loop import at_end_of_turn
from kerolox.runtime.files import Disk, RealDisk
from kerolox.runtime.service import Service
from kerolox.store.cleanup.deleted_topics import DELETED_TOPICS, DeletedTopics
from kerolox.store.cleanup.retention import Retention
from kerolox.store.cleanup.topics import TopicCleanup
from kerolox.store.config import PAGE_SIZE, FlushDiskType, StoreConfig
from kerolox.store.delay.delay_levels import parse_levels
from kerolox.store.dispatcher import Dispatcher, DispatchRules
from kerolox.store.errors import (
    NotCopied,
    NotEnoughReplicas,
    NotStorable,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    SyncFailed,
)
from kerolox.store.flush_behind import FlushBehind
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.index.layout import IndexShape
from kerolox.store.lock import Lock, take_lock
from kerolox.store.log.allocator import FileAllocator
from kerolox.store.log.cold_reads import ColdReads
from kerolox.store.log.commit_log import Append, Appended, CommitLog
from kerolox.store.log.flusher import Flusher, FlushPolicy
from kerolox.store.log.growth import LogGrowth
from kerolox.store.log.log_copy import CopiedRecords, LogCopy
from kerolox.store.log.pending_acks import (
    AckStatus,
    Copies,
    CopyRefused,
    CopyWait,
    PendingAcks,
    Sender,
    Senders,
    SingleSender,
    notify_refused,
    notify_stored,
)
from kerolox.store.log.records import Records
from kerolox.store.log.segments import INLINE_READ_SIZE_MAX, OpenFiles, Segments
from kerolox.store.log.stalled_appends import StalledAppends, appends_size
from kerolox.store.message_lookup import MessageLookup
from kerolox.store.message_waiters import MessageWaiters
from kerolox.store.queue.queues import LIGHT_PREFIX, Queues, check_name, warn_of_batches
from kerolox.store.queue.repair import QueueRepair
from kerolox.store.reader import Reader
from kerolox.store.recovery.checkpoint import Checkpoint
from kerolox.store.recovery.damaged_ranges import FILE_NAME as DAMAGES_NAME
from kerolox.store.recovery.damaged_ranges import DamagedRanges
from kerolox.store.recovery.derived_files import FILE_NAME as DERIVED_NAME
from kerolox.store.recovery.derived_files import DerivedData, DerivedFile, DerivedState, damaged_queues
from kerolox.store.recovery.log_checksums import decode
from kerolox.store.recovery.recovery import Recovered, recover
from kerolox.store.recovery.truncation import FILE_NAME as TRUNCATION_NAME
from kerolox.store.recovery.truncation import Truncation, cut_log, is_boundary, lower_checkpoint, remove_descriptions

log = logging.getLogger(__name__)

# Bytes of the log that are dispatched between two yields to the event loop when queues or index catch up.
_CATCH_UP_SIZE = 2 * 1024 * 1024
# The checkpoint of the timer, which may cover messages that a truncation removes.
TIMER_CHECKPOINT = "config/timercheck"
# fsyncs of the commit log that may run at the same time, where a single one is slow.
_SYNCS_MAX = 3


@dataclass(frozen=True, slots=True)
class StoreHooks:
    """Functions through which the owner of a store adapts it."""

    # Called when senders have been acknowledged. The broker writes their responses to the sockets here, so that they
    # do not wait until the messages are dispatched.
    on_acknowledged: Callable[[], None] = lambda: None
    # How long senders wait for the next file of the commit log before they are refused.
    append_timeout_seconds: Callable[[], float] = lambda: float("inf")
    # Returns the Bloom filter bit map of a record, for queues with an extension (enableConsumeQueueExt).
    bit_map: Callable[[RecordSummary], bytes] | None = None
    # Copies on other brokers that senders wait for (SYNC_MASTER); None if they never wait for any.
    copies: Copies | None = None
    # Whether the log is a copy of another broker's (SLAVE), so that recovery need not keep what follows a damage.
    is_copy: bool = False


class Store(Service):
    """A directory with RocketMQ's files.

    Appending and reading are plain functions on the event loop. `put` also waits until the message is as durable as
    `flushDiskType` promises, and held by as many copies as `StoreHooks.copies` needs.
    """

    def __init__(
        self,
        config: StoreConfig,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        hooks: StoreHooks | None = None,
    ) -> None:
        self.config = config
        self._clock = clock or SystemClock()
        self._disk = disk or RealDisk()
        self._hooks = hooks or StoreHooks()
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
            self.index = KeyIndex(self._files, root / "index", self._clock, shape=shape)
        self.checkpoint = Checkpoint(self._disk, root / "checkpoint")
        self.damaged_ranges = DamagedRanges(self._disk, root / DAMAGES_NAME)
        self._derived_file = DerivedFile(self._disk, root / DERIVED_NAME)
        self._truncation = Truncation(self._disk, root / TRUNCATION_NAME)
        self.message_waiters = MessageWaiters()
        self._deleted_topics = DeletedTopics(self._disk, root / "config" / DELETED_TOPICS)
        rules = DispatchRules(parse_levels(config.message_delay_level), self._deleted_topics, self._hooks.bit_map)
        self.dispatcher = Dispatcher(self.log, self.queues, self.index, self.message_waiters, rules)
        self._derived = DerivedData(self.dispatcher, self.queues, self.index, self.checkpoint, self._derived_file)
        self._pending_acks = PendingAcks(timeout_seconds=config.sync_flush_timeout / 1000)
        self.copies = self._hooks.copies
        self._pending_copies = PendingAcks(
            timeout_seconds=0 if self.copies is None else self.copies.timeout_seconds,
            timeout_status=AckStatus.FLUSH_SLAVE_TIMEOUT,
        )
        if self.copies is not None:
            self.copies.subscribe(self._on_copied)
        self.flusher = Flusher(
            self.log,
            FlushPolicy(
                interval_seconds=config.flush_interval_commit_log / 1000,
                thorough_seconds=config.flush_commit_log_thorough_interval / 1000,
                unsynced_size_min=config.flush_commit_log_least_pages * PAGE_SIZE,
                syncs_max=_SYNCS_MAX,
            ),
            on_durable=self._on_durable,
            on_failed=self._pending_acks.fail,
        )
        self.allocator = FileAllocator(self._segments, self.log, self._clock, on_sync_failed=self.flusher.fail)
        self.flush_behind = FlushBehind(
            config, self.log, self.flusher, self._derived, self._clock, dispatch_pending=self._dispatch
        )
        records = Records(self.log, self._segments, body_size_max=config.max_message_size)
        self.repair = QueueRepair(self._segments, records, self.queues, self.dispatcher, self._clock)
        self.reader = Reader(records, self.queues, self.index, config, self.repair)
        self.cold_reads = ColdReads(self._files, config.cold_read_threads)
        self.lookup = MessageLookup(self.reader, self.index, self.cold_reads)
        self.retention = Retention(config, self._disk, self._clock, self.log, self.flush_behind, self._deleted_topics)
        # Wakes the replication of the log to other brokers.
        self.growth = LogGrowth(self.log)
        self._copy = LogCopy(self.log, self._segments, self.allocator, self.flusher)
        # Whether this log is a copy of another one, so that nothing else may be appended.
        self._is_copying = False
        self._abort = root / "abort"
        self._lock: Lock | None = None
        self._is_open = self._is_cut_requested = False
        # Why queues or index do not follow the log at present.
        self._dispatch_failure: Exception | None = None
        self._queue_offsets: dict[tuple[str, int], int] = {}
        self.topic_cleanup = TopicCleanup(
            self.log,
            self.flush_behind,
            self.message_waiters,
            self._deleted_topics,
            queue_offsets=self._queue_offsets,
            clear_stray=self._clear_stray,
        )
        # Appended, but not durable (SYNC_FLUSH) or confirmed (controller mode) yet, and so not dispatched to readers.
        self._undispatched: deque[tuple[Sequence[Append], Sequence[Appended]]] = deque()
        # Submitted in this iteration of the event loop, or waiting for the next file of the log.
        self._submitted: list[tuple[Sequence[Append], Senders]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        # Set while the log has no file to append to; it limits how long senders wait for one.
        self._stalled: StalledAppends | None = None
        self._awaited_allocation: asyncio.Task[OSError | None] | None = None
        self._is_sync = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._is_confirmed = self.copies is not None and self.copies.limits_readers
        # Whether readers see messages only some time after they were written.
        self._is_held_back = self._is_sync or self._is_confirmed
        # Whether senders may have to wait after their messages were written.
        self._has_pending_acks = self._is_sync or self.copies is not None

    # Lifecycle

    async def open(self) -> None:
        self.recover()
        # Without a file the first senders would wait until it is allocated.
        await self.allocator.prepare()

    def recover(self) -> Recovered:
        """Load the files and make queues and index agree with the log.

        StoreError, with the reason, if the store cannot be opened.
        """
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
        # A process that was killed may have created a file without syncing its directory.
        self._disk.sync(self.config.commit_log_directory)
        self._deleted_topics.load()
        self.queues.load()
        warn_of_batches(self._disk, root)
        self.topic_cleanup.load()
        self.checkpoint.load()
        cut_offset = self._truncation.load()
        if cut_offset is not None:
            self._cut(cut_offset)
            is_clean = False
        state = self._derived_file.load()
        is_exact = is_clean and state is not None and self._is_from_last_stop(state)
        damaged = dict(self.queues.damaged)
        if state is not None:
            first_offset = self._segments.first_offset
            damaged |= damaged_queues(state, self.queues, first_offset, self._deleted_topics, is_exact=is_exact)
        index_damage = self._load_index(state, is_clean=is_clean, is_exact=is_exact)
        recovered = recover(
            self._segments,
            self._derived,
            self.log.checksums,
            is_clean=is_clean,
            is_index_whole=not index_damage,
            damaged=damaged,
            are_ends_known=state is not None,
            is_copy=self._hooks.is_copy,
        )
        self.log.load(recovered.end_offset)
        self.log.sync(self._segments.first_offset, recovered.end_offset)
        self.flusher.load(recovered.end_offset)
        self._dispatch_failure = recovered.index_failure
        self.damaged_ranges.load()
        self.damaged_ranges.note(
            recovered.damages, first_offset=self._segments.first_offset, read_from=recovered.start_offset
        )
        self.reader.load_damages(self.damaged_ranges.known)
        self._queue_offsets.update({key: queue.max_offset for key, queue in self.queues.items()})
        self.retention.load()
        if cut_offset is not None:
            self._truncation.finish()
        self._is_open = True
        log.info("opened %s: log up to %d, %d queues", root, self.log.end_offset, len(self.queues))
        return recovered

    def _cut(self, offset: int) -> None:
        """Do a requested truncation, up to the point where recovery goes on as after a crash."""
        root = self.config.store_path_root_dir
        log.warning("cutting the commit log at %d, as requested before the last stop", offset)
        lower_checkpoint(self.checkpoint, self._segments, offset)
        remove_descriptions(self._disk, root / DERIVED_NAME, root / TIMER_CHECKPOINT)
        cut_log(self._segments, offset)

    def _is_from_last_stop(self, state: DerivedState) -> bool:
        """Whether this state was written by the last clean stop, and nothing has written to the store since."""
        saved = decode(self.checkpoint.log_checksums)
        if saved is None or saved.timestamps != self.checkpoint.timestamps:
            return False
        return saved.dispatched_offset == state.dispatched_offset

    def _load_index(self, state: DerivedState | None, *, is_clean: bool, is_exact: bool) -> list[str]:
        if self.index is None:
            return []
        heads = None if state is None else dict(sorted(state.index.items()))
        if heads and not is_exact:
            # The last index file may have grown since the state was saved.
            heads.popitem()
        checkpoint_timestamp = None if is_clean else self.checkpoint.index_timestamp
        return self.index.load(checkpoint_timestamp, heads=heads, first_offset=self._segments.first_offset)

    def _make_directories(self, root: Path) -> None:
        is_new = not self._disk.names(root)
        for directory in (root, self.config.commit_log_directory, root / "consumequeue"):
            self._disk.make_directory(directory)
        self._disk.sync(root)
        self._disk.sync(self.config.commit_log_directory.parent)
        if is_new:
            for parent in root.parents:
                # A parent that this process may not read was not created by it, so it need not be synced.
                with contextlib.suppress(PermissionError):
                    self._disk.sync(parent)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.flusher.run(), name="commit log flusher")
            tasks.create_task(self.flush_behind.run(), name="queue and index flusher")
            tasks.create_task(self.retention.run(), name="retention")
            tasks.create_task(self.repair.run(), name="consume queue repair")

    async def close(self) -> None:
        """Make everything durable and remove the abort file, which marks the stop as clean."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            await self.allocator.close()
            # Bytes of refused appends are not part of the log; without them the next start finds a clean end.
            with contextlib.suppress(OSError):
                self.log.clear_stray()
            await self.flusher.close()
            self._pending_copies.expire_all()
            await self.flush_behind.flush(is_last=True)
            is_clean = self.flusher.failure is None and self.dispatcher.offset == self.log.end_offset
            if is_clean and not self.flush_behind.is_lost:
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
            self.cold_reads.close()
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
        """Return the queue offset that the next message gets; readers may not see all messages before it yet."""
        return self._queue_offsets.get((topic, queue_id), 0)

    def queue_counts(self) -> dict[str, int]:
        """Return the topics that have messages, each with the smallest queue count that fits its queue ids."""
        counts: dict[str, int] = {}
        for (topic, queue_id), queue in self.queues.items():
            if queue.max_offset and not topic.startswith(LIGHT_PREFIX):
                counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        return counts

    def queue_ends(self) -> dict[tuple[str, int], int]:
        """Return the offset after the last message of each queue that can be rebuilt from the log."""
        return {key: queue.max_offset for key, queue in self.queues.items() if not key[0].startswith(LIGHT_PREFIX)}

    def request_truncation(self, offset: int) -> None:
        """Make the next start cut the log at a physical offset, where a record begins or the log ends.

        The request is durable when this returns. The store refuses to append from now on: close it and open it again.
        """
        first, end = self.log.first_offset, self.log.end_offset
        if not is_boundary(self._segments, offset, end):
            raise StoreError(f"the log from {first} to {end} cannot be cut at {offset}: no record begins there")
        self._truncation.request(offset)
        self._is_cut_requested = True

    # Appending

    @property
    def is_stalled(self) -> bool:
        """Whether senders are waiting for the next file of the log."""
        return self._stalled is not None

    async def put(self, append: Append) -> tuple[Appended, AckStatus]:
        """Return the position of the stored records, and whether they are as durable and copied as promised.

        StoreReadOnly, StoreFull, StoreBusy or NotStorable if they are not stored.
        """
        sender = _PutFuture()
        self.submit(append, sender)
        return await sender.future

    def submit(self, append: Append, sender: Sender) -> None:
        """Queues an append; the sender is notified later of the result that `put` would return or raise.

        Everything submitted in one iteration of the event loop is written with one write, before any of its senders is
        notified. Raises NotStorable, and StoreBusy if too many bytes are waiting already.
        """
        self.submit_all([append], SingleSender(sender))

    def submit_all(self, appends: Sequence[Append], senders: Senders, *, at_once: bool = False) -> None:
        """Queues several appends. Either all of them wait until they are durable, or none does.

        With `at_once` they are written now, together with everything submitted before.
        """
        for append in appends:
            self._check(append)
        if self._is_held_back or self._stalled is not None:
            self._check_pending_size(appends)
        is_first = not self._submitted
        self._submitted.append((appends, senders))
        if at_once:
            self._append_submitted()
        elif is_first:
            # get_running_loop() checks the process id, which is a system call; so it is called once.
            self._loop = self._loop or asyncio.get_running_loop()
            at_end_of_turn(self._loop, self._append_submitted)

    def _check_pending_size(self, appends: Sequence[Append]) -> None:
        waiting = 0 if self._stalled is None else self._stalled.size
        if self._is_held_back and self.flusher.failure is None:
            # Undispatched appends stay in memory until readers may see them, whether or not their senders wait.
            waiting += self.log.end_offset - self._visible_offset
        bound = self.config.put_bytes_pending_max
        if waiting and waiting + appends_size(appends) > bound:
            raise StoreBusy(
                f"{waiting} bytes of messages are waiting to be stored, the limit is {bound} (putBytesPendingMax)"
            )
        if self._stalled is not None:
            self._stalled.add(appends)

    def _append_submitted(self, no_file: OSError | None = None) -> None:
        if self.allocator.is_due and no_file is None and self._must_wait_for_file():
            return
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        submitted, self._submitted = self._submitted, []
        if not submitted:
            # An append with `at_once` has written them already.
            return
        appended: list[Appended] = []
        failure: Exception = StoreFull("the disk has no room for another file of the commit log")
        all_appends = submitted[0][0]
        if len(submitted) > 1:
            all_appends = list(chain.from_iterable([appends for appends, _ in submitted]))
        try:
            appended = self._append(all_appends, no_file)
        except Exception as error:
            # Any exception must reach the waiting senders, or they would wait forever.
            failure = error
        start = 0
        for appends, senders in submitted:
            positions = appended[start : start + len(appends)]
            start += len(appends)
            if positions and self._has_pending_acks and appends[0].is_awaited:
                self._await_ack(positions, senders)
            elif positions:
                notify_stored(senders, 0, positions, AckStatus.OK)
            if len(positions) < len(appends):
                notify_refused(senders, len(positions), len(appends) - len(positions), failure)
        if self._is_sync and appended:
            # Needed even if no sender waits: readers see the messages only once they are durable.
            self.flusher.wake()
        # No reader can run before this iteration of the loop ends, so the responses are sent before dispatching.
        self._hooks.on_acknowledged()
        if appended:
            self._make_visible(all_appends, appended)

    def _await_ack(self, appended: Sequence[Appended], senders: Senders) -> None:
        """Acknowledge messages that were just written, when they are durable and copied as promised."""
        copies = self.copies
        if copies is None or not copies.are_needed():
            if self._is_sync:
                self._pending_acks.add(0, appended, senders)
            else:
                notify_stored(senders, 0, appended, AckStatus.OK)
        elif not copies.are_available(self.log.end_offset):
            if self._is_sync:
                self._pending_acks.add(0, appended, CopyRefused(senders))
            else:
                notify_stored(senders, 0, appended, AckStatus.SLAVE_NOT_AVAILABLE)
        elif self._is_sync:
            self._pending_acks.add(0, appended, CopyWait(copies, self._pending_copies, senders))
        else:
            self._pending_copies.add(0, appended, senders)
            self._pending_copies.acknowledge(copies.held_offset())

    def _on_copied(self) -> None:
        assert self.copies is not None
        self._pending_copies.acknowledge(self.copies.held_offset())
        self._hooks.on_acknowledged()
        if self._is_confirmed and self._is_open:
            self._dispatch_visible()

    def _on_durable(self) -> None:
        self._pending_acks.acknowledge(self.flusher.durable_offset)
        self._hooks.on_acknowledged()
        self._dispatch_visible()

    @property
    def _visible_offset(self) -> int:
        """Readers may see the log up to here: what neither a power cut nor a failover takes back."""
        offset = self.flusher.durable_offset if self._is_sync else self.log.end_offset
        # A store that is being closed has no readers, but dispatches all of its log.
        if self._is_confirmed and self._is_open:
            assert self.copies is not None
            offset = min(offset, self.copies.confirm_offset())
        return offset

    def _dispatch_visible(self) -> None:
        undispatched, end_offset = self._undispatched, self._visible_offset
        if self._is_confirmed:
            self.checkpoint.confirmed_offset = end_offset
        while undispatched and undispatched[0][1][-1].end_offset <= end_offset:
            batch = undispatched.popleft()
            if self._dispatch_failure is None:
                self._dispatch(*batch)
        self._dispatch()

    def _must_wait_for_file(self) -> bool:
        """Start allocating the next file of the log; True if the submitted appends must wait for it."""
        if not self._is_open or self.flusher.failure is not None:
            return False
        is_needed = not self.log.has_room(sum(appends_size(appends) for appends, _ in self._submitted))
        allocation = self.allocator.begin(is_needed=is_needed)
        if is_needed and allocation is not None and allocation is not self._awaited_allocation:
            self._awaited_allocation = allocation
            allocation.add_done_callback(self._resume_appends)
        if is_needed and self._stalled is None:
            self._stalled = StalledAppends(self._submitted, self._hooks.append_timeout_seconds)
        return is_needed

    def _resume_appends(self, allocation: asyncio.Task[OSError | None]) -> None:
        self._awaited_allocation = None
        is_finished = not allocation.cancelled() and allocation.exception() is None
        self._append_submitted(allocation.result() if is_finished else OSError("the next file was not allocated"))

    def append(self, appends: Sequence[Append]) -> list[Appended]:
        """Append with as few writes as possible. Returns fewer positions than appends if the disk is full."""
        for append in appends:
            self._check(append)
        appended = self._append(appends)
        self._make_visible(appends, appended)
        if self.allocator.is_due:
            # Callers of this function do not wait, so the next file would be allocated on the event loop.
            self.allocator.begin_early()
        return appended

    def _append(self, appends: Sequence[Append], no_file: OSError | None = None) -> list[Appended]:
        if self._is_copying:
            raise StoreReadOnly("this store is a copy of another broker's; send to the master")
        self._check_writable()
        if self.copies is not None and (refusal := self.copies.refusal()) is not None:
            raise NotEnoughReplicas(refusal)
        # Next queue offset of each queue, if all are appended.
        next_offsets: dict[tuple[str, int], int] = {}
        queue_offsets = [_assign_queue_offsets(append, next_offsets, self._queue_offsets) for append in appends]
        try:
            appended = self.log.append(appends, queue_offsets, self._clock.millis(), no_file)
        except OSError as error:
            self.retention.note_failure(error)
            raise StoreFull(f"the commit log could not be written: {error}") from error
        except SyncFailed as error:
            self.flusher.fail(error)
            raise
        if len(appended) < len(appends):
            next_offsets = {}
            for append in appends[: len(appended)]:
                _assign_queue_offsets(append, next_offsets, self._queue_offsets)
        self._queue_offsets.update(next_offsets)
        if self._is_held_back and appended:
            self._undispatched.append((appends, appended))
        if self.growth.waiters:
            self.growth.wake()
        return appended

    def _check_writable(self) -> None:
        """Raise if nothing can be appended at present."""
        if not self._is_open:
            raise StoreReadOnly("the store is not open")
        if self._is_cut_requested:
            raise StoreReadOnly("the store has to be opened again, because its log is to be cut")
        if self.flusher.failure is not None:
            raise self.flusher.failure
        if self.retention.refusal is not None:
            raise StoreFull(self.retention.refusal)
        if self._dispatch_failure is not None:
            self._dispatch()
            if self._dispatch_failure is not None:
                raise StoreFull(
                    f"queues and index cannot follow the commit log: {self._dispatch_failure}"
                ) from self._dispatch_failure

    def _make_visible(self, appends: Sequence[Append], appended: Sequence[Appended]) -> None:
        """Make new messages visible to readers, unless they have to become durable or confirmed first."""
        if not self._is_held_back and self._is_open:
            self._dispatch(appends, appended)
        elif self._is_confirmed and self._is_open:
            self._dispatch_visible()

    def _check(self, append: Append) -> None:
        size, size_max = len(append.records), self.log.append_size_max
        if size > size_max:
            raise NotStorable(
                f"an append of {size} bytes exceeds {size_max}, the most that fits into a commit log file"
            )
        for queue in set(append.queues or ((append.topic, append.queue_id),)):
            if queue not in self._queue_offsets:
                check_name(*queue)

    # Replication

    async def read_log(self, offset: int, size_max: int) -> bytes:
        """Return bytes of the log from `offset` on, not beyond the end of its file; empty at the end of the log.

        They include what is not durable yet. Does not suspend if they are in memory. StoreError if the log no longer
        holds `offset`, or if the disk cannot be read.
        """
        if not self.log.first_offset <= offset <= self.log.end_offset:
            raise StoreError(f"the log holds {self.log.first_offset} to {self.log.end_offset}, not {offset}")
        size = min(size_max, INLINE_READ_SIZE_MAX, self.log.end_offset - offset)
        return await self.cold_reads.read(lambda: self.log.read(offset, size)) if size else b""

    @property
    def copy_offset(self) -> int:
        """The physical offset at which the next bytes for `append_copy` must begin, if `is_empty` is false."""
        return self._copy.end_offset

    @property
    def is_empty(self) -> bool:
        """Whether the log holds nothing, so that a copy may begin at any file."""
        return self._copy.is_empty

    @property
    def held_offset(self) -> int:
        """What a slave reports to its master: the end of the last whole record, durable under SYNC_FLUSH."""
        return self.flusher.durable_offset if self._is_sync else self.log.end_offset

    async def begin_copy(self) -> None:
        """Make the log a copy of another one: only `append_copy` may append from now on.

        Called again for every new connection to the master, since the rest of an incomplete record may not come. Under
        SYNC_FLUSH the log is durable when it returns, so that the copy continues where `held_offset` is.
        """
        self._is_copying = True
        self._copy.reset()
        if self._is_sync:
            await self.flusher.flush()
        self._check_writable()

    async def end_copy(self) -> None:
        """Make the log an ordinary one, for example when a slave becomes master; readers then see all of it."""
        self._copy.reset()
        if self._is_sync:
            await self.flusher.flush()
        has_more = self._dispatch(is_whole=True)
        while has_more:
            await asyncio.sleep(0)
            has_more = self._dispatch(is_whole=True)
        self._is_copying = False

    async def append_copy(self, physical_offset: int, data: bytes) -> None:
        """Append bytes of another broker's log, which may begin and end within a record.

        NotCopied if they do not continue this log or are damaged; StoreFull and StoreReadOnly as in `put`. After an
        exception `begin_copy` is needed.
        """
        if not self._is_copying:
            raise StoreReadOnly("this store is not a copy of another broker's")
        self._check_writable()
        if self.is_empty and physical_offset != self.log.end_offset:
            await self._copy.begin_at(physical_offset)
            self.dispatcher.load(physical_offset)
        if physical_offset != self._copy.end_offset:
            raise NotCopied(
                f"the master's log continues at {physical_offset}, this copy ends at {self._copy.end_offset}"
            )
        for copied in self._copy.split(data):
            await self._copy.make_room()
            self._append_copied(copied)
        if self._is_sync and self.log.end_offset - self.flusher.durable_offset > self.config.put_bytes_pending_max:
            await self.flusher.flush()

    def _append_copied(self, copied: CopiedRecords) -> None:
        try:
            self.log.append_copied(copied.data, copied.record_count)
        except OSError as error:
            self.retention.note_failure(error)
            raise StoreFull(f"the commit log could not be written: {error}") from error
        except SyncFailed as error:
            self.flusher.fail(error)
            raise
        for run in copied.runs:
            self._note_queue_offsets(run)
        if self.growth.waiters:
            self.growth.wake()
        if self._is_sync:
            # Readers see the messages once they are durable.
            self.flusher.wake()
        elif self._is_confirmed:
            self._dispatch_visible()
        else:
            self._dispatch(copied=copied.runs)

    def _note_queue_offsets(self, run: Columns) -> None:
        """Continue the numbering of queues after copied records, in case this store becomes a master's."""
        queues = zip(run.topics, run.queue_ids, strict=True)
        for queue, queue_offset, sys_flag in zip(queues, run.queue_offsets, run.sys_flags, strict=True):
            if is_queued(sys_flag):
                self._queue_offsets[queue] = queue_offset + 1

    def _dispatch(
        self,
        appends: Sequence[Append] = (),
        appended: Sequence[Appended] = (),
        *,
        copied: Sequence[Columns] = (),
        is_whole: bool = False,
    ) -> bool:
        """Dispatch the appended or copied messages, and what the log holds beyond the dispatcher's offset.

        Nothing is dispatched after `_visible_offset`, unless all of it is asked for. Returns True if more can be
        dispatched right away, but the event loop should run other tasks first.
        """
        try:
            end_offset = self.log.end_offset if is_whole else self._visible_offset
            for run in copied:
                self.dispatcher.dispatch_copied(run)
            if appended:
                self.dispatcher.dispatch_appended(appends, appended)
            else:
                # After a failure, such as a full disk, there may be a lot to catch up with.
                self.dispatcher.dispatch_until(
                    end_offset, size_max=sys.maxsize if self._dispatch_failure is None else _CATCH_UP_SIZE
                )
            if self.queues.backlog.entries > self.config.queue_entries_pending_max:
                self.queues.flush()
        except Exception as error:
            # Any exception: the messages are stored and acknowledged. They are dispatched later, from the log.
            if self._dispatch_failure is None:
                is_known = isinstance(error, OSError | RecordError | StoreError)
                log.error(
                    "queues and index cannot follow the commit log at %d: %s",
                    self.dispatcher.offset,
                    error,
                    exc_info=None if is_known else error,
                )
            self._dispatch_failure = error
            self.retention.note_failure(error)
            return False
        if self.dispatcher.offset < end_offset and (is_whole or not self._is_confirmed):
            return True
        self._dispatch_failure = None
        return False


def _assign_queue_offsets(
    append: Append, next_offsets: dict[tuple[str, int], int], known: Mapping[tuple[str, int], int]
) -> int:
    """Assign queue offsets to the records of an append and return the first.

    The next offset of a queue is in `next_offsets`, or else in `known`; `next_offsets` is advanced.
    """
    if not append.is_queued:
        return 0
    if append.queues is None:
        key = append.topic, append.queue_id
        offset = next_offsets[key] if key in next_offsets else known.get(key, 0)
        next_offsets[key] = offset + len(append.starts)
        return offset
    offsets: list[int] = []
    for queue in append.queues:
        offset = next_offsets.get(queue, -1)
        if offset < 0:
            offset = known.get(queue, 0)
        offsets.append(offset)
        next_offsets[queue] = offset + 1
    append.queue_offsets = offsets
    return offsets[0]


class _PutFuture:
    """A sender that awaits the result as a future."""

    def __init__(self) -> None:
        self.future: asyncio.Future[tuple[Appended, AckStatus]] = asyncio.get_running_loop().create_future()

    def stored(self, appended: Appended, status: AckStatus) -> None:
        if not self.future.done():
            self.future.set_result((appended, status))

    def refused(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
