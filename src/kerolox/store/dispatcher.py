"""Dispatches the commit log to consume queues, key index and waiting readers (ReputMessageService)."""

import logging
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import sub
from typing import Any, TypeAlias

from kerolox.message import sysflag
from kerolox.message.properties import find
from kerolox.message.records.columns import Columns
from kerolox.message.records.record import BLANK_MAGIC, size_and_magic
from kerolox.message.records.summary import RecordSummary, peek, peek_run
from kerolox.store.cleanup.deleted_topics import DeletedTopics
from kerolox.store.delay.delay_levels import DELAY_MARK, SCHEDULE_TOPIC, due_timestamp, java_int
from kerolox.store.errors import NotStorable
from kerolox.store.index.key_hashes import NO_KEYS, RecordKeys, index_keys
from kerolox.store.index.key_index import KeyBatch, KeyIndex
from kerolox.store.log.commit_log import Append, Appended, CommitLog
from kerolox.store.log.scan import Damage
from kerolox.store.message_waiters import MessageWaiters
from kerolox.store.queue.consume_queue import ConsumeQueue, pack_entry
from kerolox.store.queue.queue_ext import ExtendedQueue, ExtUnit
from kerolox.store.queue.queues import Queues

log = logging.getLogger(__name__)

_CHUNK_SIZE = 256 * 1024
# Size and magic of a record.
_HEAD_SIZE = 8

# Consume queue entry of a record: physical offset, size and tags code.
QueueEntry: TypeAlias = tuple[int, int, int]
# Queue → (first queue offset, entries from there on).
Runs: TypeAlias = dict[tuple[str, int], tuple[int, list[QueueEntry]]]


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """Settings and state, besides the record, that determine its consume queue entry."""

    # Milliseconds by delay level.
    delay_levels: Mapping[int, int] = field(default_factory=dict)
    deleted_topics: DeletedTopics | None = None
    # Returns the Bloom filter bit map of a record, for queues with an extension (enableConsumeQueueExt).
    bit_map: Callable[[RecordSummary], bytes] | None = None


class Dispatcher:
    """Readers see a record only once it has been dispatched."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: Queues,
        index: KeyIndex | None,
        message_waiters: MessageWaiters,
        rules: DispatchRules | None = None,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._index = index
        rules = rules or DispatchRules()
        self._message_waiters = message_waiters
        self._delay_levels = rules.delay_levels
        self._delay_level_max = max(rules.delay_levels, default=0)
        self._deleted_topics = rules.deleted_topics
        self._bit_map = rules.bit_map
        # Whether queues have an extension (ConsumeQueueExt) with a unit for each entry.
        self._is_extended = queues.is_extended
        # The log has been dispatched up to this physical offset.
        self.offset = 0
        # Store timestamp of the last dispatched record.
        self.timestamp = 0
        # Damaged ranges of the log by their start; they hold no record and are skipped.
        self._damages: dict[int, Damage] = {}

    def load(self, offset: int, damages: Iterable[Damage] = ()) -> None:
        """Continue at `offset`; damaged ranges of the log are skipped."""
        self.offset = offset
        self._damages = {damage.offset: damage for damage in damages}

    def dispatch_until(self, end_offset: int, *, size_max: int = sys.maxsize) -> None:
        """Read the log and dispatch the records that end before `end_offset`, or a little more than `size_max`."""
        stop_offset = min(end_offset, self.offset + size_max)
        while self.offset < stop_offset:
            damage = self._damages.get(self.offset)
            if damage is not None:
                self.offset = damage.end_offset
                continue
            chunk = self._log.read(self.offset, min(_CHUNK_SIZE, end_offset - self.offset))
            if len(chunk) < _HEAD_SIZE:
                return
            size, magic = size_and_magic(chunk)
            if magic == BLANK_MAGIC:
                self.offset = self._log.next_file_start(self.offset)
            elif size > end_offset - self.offset:
                # Replicas of RocketMQ's report, and so confirm, a part of a record.
                return
            elif size > len(chunk):
                self.dispatch(peek(self._log.read(self.offset, size)))
            else:
                self._dispatch_chunk(chunk)

    def _dispatch_chunk(self, chunk: bytes) -> None:
        """Dispatch the complete records of a chunk, at least one, up to a blank or a damaged range."""
        run = peek_run(chunk, 0, self.offset)
        if self._damages:
            end = min((start for start in self._damages if start > self.offset), default=self.offset + len(chunk))
            run = [record for record in run if record.physical_offset < end]
        self.dispatch_all(run or [peek(chunk)])

    def dispatch(self, record: RecordSummary) -> None:
        """Dispatch one record; dispatching it again changes nothing."""
        self.dispatch_all([record])

    def dispatch_all(self, records: Sequence[RecordSummary]) -> None:
        """Dispatch contiguous records; dispatching them again changes nothing.

        On OSError some of them may have queue entries already, and no waiter was notified.
        """
        keyed = KeyBatch()
        self._append_entries(records, keyed)
        if self._index is not None:
            self._index.put_all(keyed)
        last = records[-1]
        self._finish_dispatch(
            {(record.topic, record.queue_id): None for record in records},
            last.physical_offset + last.size,
            last.store_timestamp,
        )

    def dispatch_appended(self, appends: Sequence[Append], appended: Sequence[Appended]) -> None:
        """Dispatch what was just appended, without reading it from the log where an append carries its columns.

        Fewer records may have been appended than there are appends. On OSError as in `dispatch_all`.
        """
        if len(appended) == 1 and self._dispatch_one(appends[0], appended[0]):
            return
        keyed = RecordKeys()
        runs: Runs = {}
        offset, timestamp = self.offset, self.timestamp
        for append, position in zip(appends, appended, strict=False):
            physical_offset, keys, columns = position.physical_offset, append.keys, append.key_columns
            if physical_offset != offset or (keys is None and columns is None) or self._is_extended:
                # Not contiguous, as after the end of a file, or keys and tags are unknown: the log is read instead.
                break
            offset, queues = position.end_offset, append.queues
            if columns is None:
                starts: Sequence[int] = (physical_offset,)
                entries = [(physical_offset, offset - physical_offset, append.tags_code)]
                keyed.add(append.topic, keys or NO_KEYS, physical_offset, position.store_timestamp)
            else:
                if isinstance(append.starts, range):
                    starts = range(physical_offset, offset, append.starts.step)
                else:
                    starts = [physical_offset + start for start in append.starts]
                entries = list(zip(starts, map(sub, (*starts[1:], offset), starts), columns.tags_codes, strict=True))
                topics = [append.topic] * len(starts) if queues is None else [topic for topic, _ in queues]
                keyed.add_all(topics, columns, starts, position.store_timestamp)
            if queues is None:
                queue = append.topic, append.queue_id
                runs.setdefault(queue, (position.queue_offset, []))[1].extend(entries)
            else:
                _group_by_queue(queues, append.queue_offsets, entries, runs)
        if offset != self.offset:
            # All were appended with one write, at the same time.
            timestamp = appended[0].store_timestamp
            deleted = self._deleted_topics
            if deleted is not None and not deleted.offsets:
                deleted = None
            for (topic, queue_id), (queue_offset, entries) in runs.items():
                if deleted is None or not deleted.covers(topic, entries[0][0]):
                    self._queues.find(topic, queue_id).append_run(queue_offset, entries)
                    continue
                # The topic was deleted between append and dispatch.
                for number, entry in enumerate(entries, queue_offset):
                    if not deleted.covers(topic, entry[0]):
                        self._queues.find(topic, queue_id).append(number, *entry)
            if self._index is not None:
                self._index.add_all(keyed)
            self._finish_dispatch(runs, offset, timestamp)
        if offset < appended[-1].end_offset:
            self.dispatch_until(appended[-1].end_offset)

    def _dispatch_one(self, append: Append, position: Appended) -> bool:
        """Dispatch a single record from its append; False if the append does not carry what is needed."""
        physical_offset, keys, topic = position.physical_offset, append.keys, append.topic
        if physical_offset != self.offset or keys is None or self._is_extended:
            return False
        deleted = self._deleted_topics
        if deleted is not None and deleted.offsets and deleted.covers(topic, physical_offset):
            return False
        end_offset, queue_id = position.end_offset, append.queue_id
        queue = self._queues.find(topic, queue_id)
        queue.append(position.queue_offset, physical_offset, end_offset - physical_offset, append.tags_code)
        if self._index is not None:
            self._index.add(topic, keys, physical_offset, position.store_timestamp)
        self.offset, self.timestamp = end_offset, position.store_timestamp
        if self._message_waiters:
            self._message_waiters.notify(topic, queue_id)
        return True

    def _append_entries(self, records: Sequence[RecordSummary], keyed: KeyBatch) -> None:
        """Append queue entries for records, and collects their keys in `keyed`."""
        append_entry, has_index = self._append_entry, self._index is not None
        for record in records:
            kind = record.sys_flag & sysflag.TRANSACTION_MASK
            if kind == sysflag.NOT_TRANSACTION or kind == sysflag.COMMIT:
                append_entry(
                    record, record.tags_code if record.topic != SCHEDULE_TOPIC else self._due_timestamp(record)
                )
            if has_index and kind != sysflag.ROLLBACK and (keys := _keys(record)):
                keyed.add(record.topic, keys, record.physical_offset, record.store_timestamp)

    def _finish_dispatch(self, queues: Iterable[tuple[str, int]], end_offset: int, timestamp: int) -> None:
        self.offset = end_offset
        self.timestamp = timestamp
        if self._message_waiters:
            self._message_waiters.notify_all(queues)

    def dispatch_columns(self, run: Columns) -> None:
        """Like `dispatch_all`, but faster for many records, and without notifying waiters; used by recovery."""
        if self._is_extended or (self._deleted_topics is not None and self._deleted_topics.offsets):
            for record in run.summaries():
                self.append_entry(record)
        else:
            self._append_columns(run)
        if self._index is not None:
            self._index.put_columns(run)
        self.offset = run.end_offset
        self.timestamp = run.store_timestamps[-1]

    def dispatch_copied(self, run: Columns) -> None:
        """Dispatch contiguous records as columns, unless they were dispatched before, and notify waiters."""
        if run.physical_offsets[0] != self.offset:
            # After a failure: what is missing is read from the log, in order.
            return
        self.dispatch_columns(run)
        if self._message_waiters:
            self._message_waiters.notify_all(set(zip(run.topics, run.queue_ids, strict=True)))

    def _append_columns(self, run: Columns) -> None:
        """Append queue entries, grouped by queue."""
        topics, codes = run.topics, run.tags_codes
        is_one = topics.count(topics[0]) == len(run)
        if SCHEDULE_TOPIC in (topics[:1] if is_one else set(topics)):
            codes = [
                self._due_timestamp(record) if record.topic == SCHEDULE_TOPIC else record.tags_code
                for record in run.summaries()
            ]
        queue_keys: Iterable[Any] = run.queue_ids if is_one else zip(topics, run.queue_ids, strict=True)
        rows: Iterable[tuple[int, Any]] = enumerate(queue_keys)
        if not all(map(sysflag.is_queued, set(run.sys_flags))):
            rows = compress(rows, map(sysflag.is_queued, run.sys_flags))
        groups: defaultdict[Any, list[int]] = defaultdict(list)
        for index, key in rows:
            groups[key].append(index)
        queue_offsets, entries = run.queue_offsets, list(map(pack_entry, run.physical_offsets, run.sizes, codes))
        for key, group in groups.items():
            topic, queue_id = (topics[0], key) if is_one else key
            queue = self._find(topic, queue_id, run.physical_offsets[group[0]])
            if queue is not None:
                queue.append_all([queue_offsets[index] for index in group], [entries[index] for index in group])

    def append_entry(self, record: RecordSummary) -> None:
        """Append the queue entry of a record, without index, waiters or a change of `offset`."""
        if sysflag.is_queued(record.sys_flag):
            self._append_entry(
                record, record.tags_code if record.topic != SCHEDULE_TOPIC else self._due_timestamp(record)
            )

    def entry_of(self, record: RecordSummary) -> QueueEntry | None:
        """Return the entry that a record must have in its queue; None if it must not have one."""
        deleted = self._deleted_topics
        if not sysflag.is_queued(record.sys_flag):
            return None
        if deleted is not None and deleted.covers(record.topic, record.physical_offset):
            return None
        tags_code = record.tags_code if record.topic != SCHEDULE_TOPIC else self._due_timestamp(record)
        return record.physical_offset, record.size, tags_code

    def _append_entry(self, record: RecordSummary, tags_code: int) -> None:
        deleted = self._deleted_topics
        if deleted is not None and deleted.offsets and deleted.covers(record.topic, record.physical_offset):
            return
        queue = self._find(record.topic, record.queue_id, record.physical_offset)
        if queue is None:
            return
        if isinstance(queue, ExtendedQueue):
            unit = ExtUnit(tags_code, record.store_timestamp, self._bit_map(record) if self._bit_map else b"")
            queue.append_extended(record.queue_offset, record.physical_offset, record.size, unit)
        else:
            queue.append(record.queue_offset, record.physical_offset, record.size, tags_code)

    def _find(self, topic: str, queue_id: int, physical_offset: int) -> ConsumeQueue | None:
        try:
            return self._queues.find(topic, queue_id)
        except NotStorable as error:
            log.error("record at %d: %s", physical_offset, error)
            return None

    def _due_timestamp(self, record: RecordSummary) -> int:
        """Return the delivery time of a message in the schedule topic, which its entry has in place of a tags code."""
        level = java_int(find(record.properties, DELAY_MARK))
        if level is None or level <= 0:
            return record.tags_code
        return due_timestamp(self._delay_levels, min(level, self._delay_level_max), record.store_timestamp)


def _group_by_queue(
    queues: Sequence[tuple[str, int]], queue_offsets: Sequence[int], entries: Sequence[QueueEntry], runs: Runs
) -> None:
    """Add entries of several queues to the run of each queue."""
    for queue, queue_offset, entry in zip(queues, queue_offsets, entries, strict=True):
        run = runs.get(queue)
        if run is None:
            runs[queue] = queue_offset, [entry]
        else:
            run[1].append(entry)


def _keys(record: RecordSummary) -> list[bytes]:
    """Return the index keys of a record."""
    return index_keys(record.unique_key, record.keys, record.tag)
