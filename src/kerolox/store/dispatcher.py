"""Follows the commit log: an entry in the queue, the keys in the index, a wake-up for who waits."""

import logging
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, repeat
from operator import sub
from typing import Any, TypeAlias

from kerolox.message import sysflag
from kerolox.message.columns import Columns
from kerolox.message.peek import Peek, peek, peek_run
from kerolox.message.properties import find
from kerolox.message.record import BLANK_MAGIC, size_and_magic
from kerolox.store.arrivals import Arrivals
from kerolox.store.cleaning.deleted_topics import DeletedTopics
from kerolox.store.delay.delays import DELAY_MARK, SCHEDULE_TOPIC, due_timestamp, java_int
from kerolox.store.errors import NotStorable
from kerolox.store.keys.key_index import Keyed, KeyIndex, index_keys
from kerolox.store.log.commit_log import Appended, CommitLog, Draft
from kerolox.store.log.scan import Damage
from kerolox.store.queue.consume_queue import ConsumeQueue
from kerolox.store.queue.queue_ext import ExtendedQueue, ExtUnit
from kerolox.store.queue.queues import Queues

log = logging.getLogger(__name__)

_CHUNK_SIZE = 256 * 1024

# What a queue's entry says of a record: physical offset, size and tags code.
Entered: TypeAlias = tuple[int, int, int]
# Of each queue the first offset, and what is entered from there on.
Runs: TypeAlias = dict[tuple[str, int], tuple[int, list[Entered]]]


class Dispatcher:
    """What it has not yet dispatched nobody can see."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: Queues,
        index: KeyIndex | None,
        arrivals: Arrivals,
        delay_levels: Mapping[int, int],
        deleted: DeletedTopics | None = None,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._arrivals = arrivals
        self._delay_levels = delay_levels
        self._delay_level_max = max(delay_levels, default=0)
        self._deleted = deleted
        # Whether each record has more than its entry in the queue.
        self._is_extended = queues.is_extended
        # Up to here the log has been dispatched.
        self.offset = 0
        # The store time of the last record that was.
        self.timestamp = 0
        # Makes the bit map of a record, for queues that keep one (enableConsumeQueueExt).
        self.bit_map_of: Callable[[Peek], bytes] | None = None
        # Ranges that hold no record, by where they begin.
        self.damages: dict[int, Damage] = {}

    def load(self, offset: int) -> None:
        self.offset = offset

    def follow(self, end_offset: int, *, size_max: int = sys.maxsize) -> None:
        """Dispatches the log up to `end_offset`, which is the end of a record, or a little more than `size_max`."""
        stop_offset = min(end_offset, self.offset + size_max)
        while self.offset < stop_offset:
            damage = self.damages.get(self.offset)
            if damage is not None:
                self.offset = damage.end_offset
                continue
            chunk = self._log.read(self.offset, min(_CHUNK_SIZE, end_offset - self.offset))
            size, magic = size_and_magic(chunk)
            if magic == BLANK_MAGIC:
                self.offset = self._log.next_file(self.offset)
            elif size > len(chunk):
                self.dispatch(peek(self._log.read(self.offset, size)))
            else:
                self._dispatch_chunk(chunk)

    def _dispatch_chunk(self, chunk: bytes) -> None:
        """Dispatches the records that are whole in a chunk, at least one, up to a blank or a damage."""
        run = peek_run(chunk, 0, self.offset)
        if self.damages:
            end = min((start for start in self.damages if start > self.offset), default=self.offset + len(chunk))
            run = [record for record in run if record.physical_offset < end]
        self.dispatch_all(run or [peek(chunk)])

    def dispatch(self, record: Peek) -> None:
        """Makes one record known; doing so again changes nothing."""
        self.dispatch_all([record])

    def dispatch_all(self, records: Sequence[Peek]) -> None:
        """Makes records known that lie one after the other; doing so again changes nothing.

        On OSError some of them may be in their queues, and nobody was woken.
        """
        keyed = Keyed()
        self._enter_all(records, keyed)
        last = records[-1]
        self._become_known(
            keyed,
            {(record.topic, record.queue_id): None for record in records},
            last.physical_offset + last.size,
            last.store_timestamp,
        )

    def dispatch_appended(self, drafts: Sequence[Draft], appended: Sequence[Appended]) -> None:
        """Makes known what was just appended; read again is only that of which a draft does not say what is needed.

        Fewer may have been appended than there are drafts. As above on OSError.
        """
        if len(appended) == 1 and self._dispatch_one(drafts[0], appended[0]):
            return
        keyed = Keyed()
        topics, texts, offsets = keyed.topics, keyed.texts, keyed.offsets
        runs: Runs = {}
        offset, timestamp = self.offset, self.timestamp
        for draft, place in zip(drafts, appended, strict=False):
            physical_offset, keys, parts = place.physical_offset, draft.keys, draft.parts
            if physical_offset != offset or (keys is None and parts is None) or self._is_extended:
                # Something lies between, such as the end of a file, or it is not known what it is found by.
                break
            offset, topic = place.end_offset, draft.topic
            key_offsets: Sequence[int]
            if parts is None:
                entries = [(physical_offset, offset - physical_offset, draft.tags_code)]
                key_offsets = [physical_offset] * len(keys or ())
            elif isinstance(draft.starts, range):
                size = draft.starts.step
                all_starts = range(physical_offset, offset, size)
                entries = list(zip(all_starts, repeat(size), parts.tags_codes))
                keys, key_offsets = parts.keys, all_starts
                if parts.key_starts is not draft.starts:
                    key_offsets = [physical_offset + start for start in parts.key_starts]
            else:
                starts = [physical_offset + start for start in draft.starts]
                entries = list(zip(starts, map(sub, (*starts[1:], offset), starts), parts.tags_codes, strict=True))
                keys, key_offsets = parts.keys, [physical_offset + start for start in parts.key_starts]
            if keys:
                texts += keys
                topics += [topic] * len(keys)
                offsets += key_offsets
            if draft.queue_ids is None:
                runs.setdefault((topic, draft.queue_id), (place.queue_offset, []))[1].extend(entries)
            else:
                _spread(draft, entries, runs)
        if offset != self.offset:
            # All were appended at once.
            timestamp = appended[0].store_timestamp
            keyed.timestamps = [timestamp] * len(texts)
            deleted = self._deleted if self._deleted is not None and self._deleted.offsets else None
            for (topic, queue_id), (queue_offset, entries) in runs.items():
                if deleted is None or not deleted.covers(topic, entries[0][0]):
                    self._queues.find(topic, queue_id).append_run(queue_offset, entries)
                    continue
                # The topic was deleted before what was appended could be seen.
                for number, entry in enumerate(entries, queue_offset):
                    if not deleted.covers(topic, entry[0]):
                        self._queues.find(topic, queue_id).append(number, *entry)
            self._become_known(keyed, runs, offset, timestamp)
        if offset < appended[-1].end_offset:
            self.follow(appended[-1].end_offset)

    def _dispatch_one(self, draft: Draft, place: Appended) -> bool:
        """Does the same for a single record of which the draft says all that is needed; False if it does not."""
        physical_offset, keys, topic = place.physical_offset, draft.keys, draft.topic
        if physical_offset != self.offset or keys is None or self._is_extended:
            return False
        if self._deleted is not None and self._deleted.offsets and self._deleted.covers(topic, physical_offset):
            return False
        end_offset, queue_id = place.end_offset, draft.queue_id
        queue = self._queues.find(topic, queue_id)
        queue.append(place.queue_offset, physical_offset, end_offset - physical_offset, draft.tags_code)
        if self._index is not None:
            self._index.put(topic, keys, physical_offset, place.store_timestamp)
        self.offset, self.timestamp = end_offset, place.store_timestamp
        if self._arrivals:
            self._arrivals.notify(topic, queue_id)
        return True

    def _enter_all(self, records: Sequence[Peek], keyed: Keyed) -> None:
        """Gives records their entries in the queues, and adds to `keyed` what they are found by."""
        enter, has_index = self._enter, self._index is not None
        for record in records:
            kind = record.sys_flag & sysflag.TRANSACTION_MASK
            if kind == sysflag.NOT_TRANSACTION or kind == sysflag.COMMIT:
                enter(record, record.tags_code if record.topic != SCHEDULE_TOPIC else self._due(record))
            if has_index and kind != sysflag.ROLLBACK and (keys := _keys(record)):
                keyed.add(record.topic, keys, record.physical_offset, record.store_timestamp)

    def _become_known(self, keyed: Keyed, queues: Iterable[tuple[str, int]], end_offset: int, timestamp: int) -> None:
        if self._index is not None:
            self._index.put_all(keyed)
        self.offset = end_offset
        self.timestamp = timestamp
        if self._arrivals:
            self._arrivals.notify_all(queues)

    def dispatch_columns(self, run: Columns) -> None:
        """Does the same as `dispatch_all`, faster if they are many, and wakes nobody: for a store that is opened."""
        if self._is_extended or (self._deleted is not None and self._deleted.offsets):
            for record in run.peeks():
                self.enter(record)
        else:
            self._enter_columns(run)
        if self._index is not None:
            self._index.put_columns(run)
        self.offset = run.end_offset
        self.timestamp = run.store_timestamps[-1]

    def _enter_columns(self, run: Columns) -> None:
        """Gives records their entries, all of a queue together."""
        topics, codes = run.topics, run.tags_codes
        if SCHEDULE_TOPIC in set(topics):
            codes = [
                self._due(record) if record.topic == SCHEDULE_TOPIC else record.tags_code for record in run.peeks()
            ]
        is_one = topics.count(topics[0]) == len(run)
        places: Iterable[Any] = run.queue_ids if is_one else zip(topics, run.queue_ids, strict=True)
        entries = zip(run.physical_offsets, run.sizes, codes, strict=True)
        rows: Iterable[tuple[Any, int, Entered]] = zip(places, run.queue_offsets, entries, strict=True)
        if not all(map(sysflag.is_queued, set(run.sys_flags))):
            rows = compress(rows, map(sysflag.is_queued, run.sys_flags))
        groups: defaultdict[Any, list[Any]] = defaultdict(list)
        for place, queue_offset, entry in rows:
            groups[place] += queue_offset, entry
        for place, group in groups.items():
            topic, queue_id = (topics[0], place) if is_one else place
            queue = self._find(topic, queue_id, group[1][0])
            if queue is not None:
                queue.append_all(group[::2], group[1::2])

    def enter(self, record: Peek) -> None:
        """Gives a record its entry in the queue, and no more."""
        if sysflag.is_queued(record.sys_flag):
            self._enter(record, record.tags_code if record.topic != SCHEDULE_TOPIC else self._due(record))

    def _enter(self, record: Peek, tags_code: int) -> None:
        deleted = self._deleted
        if deleted is not None and deleted.offsets and deleted.covers(record.topic, record.physical_offset):
            return
        queue = self._find(record.topic, record.queue_id, record.physical_offset)
        if queue is None:
            return
        if isinstance(queue, ExtendedQueue):
            unit = ExtUnit(tags_code, record.store_timestamp, self.bit_map_of(record) if self.bit_map_of else b"")
            queue.append_extended(record.queue_offset, record.physical_offset, record.size, unit)
        else:
            queue.append(record.queue_offset, record.physical_offset, record.size, tags_code)

    def _find(self, topic: str, queue_id: int, physical_offset: int) -> ConsumeQueue | None:
        try:
            return self._queues.find(topic, queue_id)
        except NotStorable as error:
            log.error("record at %d: %s", physical_offset, error)
            return None

    def _due(self, record: Peek) -> int:
        """Returns when a message is due that waits in the schedule topic: its queue has that for a tags code."""
        level = java_int(find(record.properties, DELAY_MARK))
        if level is None or level <= 0:
            return record.tags_code
        return due_timestamp(self._delay_levels, min(level, self._delay_level_max), record.store_timestamp)


def _spread(draft: Draft, entries: Sequence[Entered], runs: Runs) -> None:
    """Adds the entries of records that are not all of one queue, each to its queue's."""
    assert draft.queue_ids is not None
    adders: dict[int, Callable[[Entered], None]] = {}
    for queue_id, queue_offset, entry in zip(draft.queue_ids, draft.queue_offsets, entries, strict=True):
        add = adders.get(queue_id)
        if add is None:
            add = adders[queue_id] = runs.setdefault((draft.topic, queue_id), (queue_offset, []))[1].append
        add(entry)


def _keys(record: Peek) -> list[bytes]:
    """Returns what a record is found by."""
    return index_keys(record.unique_key, record.keys, record.tag)
