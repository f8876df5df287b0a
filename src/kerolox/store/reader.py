"""Reads messages by queue offset, physical offset, store time or key."""

from functools import partial

from kerolox.message.ids import parse_offset_id
from kerolox.message.records.summary import RecordSummary, peek
from kerolox.store.config import StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.index.key_hashes import tag_key
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.index.query import FOREVER, QueryResult, find_offsets, query
from kerolox.store.log.records import Records
from kerolox.store.log.scan import Damage
from kerolox.store.queue.by_time import Boundary, offset_at
from kerolox.store.queue.consume_queue import ConsumeQueue, Entry
from kerolox.store.queue.entry_check import is_of_queue
from kerolox.store.queue.lookup import (
    PULL_SIZE_MAX,
    EntryFilter,
    GetResult,
    GetStatus,
    MisplacedEntries,
    PullBounds,
    PullQuery,
    QueueName,
    RecordFilter,
    bounds_of,
    bulk_bounds_of,
    pull,
)
from kerolox.store.queue.queues import LIGHT_PREFIX, Queues
from kerolox.store.queue.repair import QueueRepair

__all__ = ["Boundary", "GetResult", "GetStatus", "PullBounds", "QueryResult", "Reader"]


class Reader:
    """Plain functions over dispatched messages; StoreError if the disk cannot be read.

    They wait for the disk, unless `ColdReads` calls them.
    """

    def __init__(
        self,
        records: Records,
        queues: Queues,
        index: KeyIndex | None,
        config: StoreConfig | None = None,
        repair: QueueRepair | None = None,
    ) -> None:
        self._config = config or StoreConfig()
        self.records = records
        self._files = queues.files
        self._queues = queues
        self._index = index
        self.bounds = bounds_of(self._config)
        self.bulk_bounds = bulk_bounds_of(self._config)
        self.records.mapped_size = min(self._config.mapped_bytes_max, self.bounds.memory_size)
        # Rebuilds damaged queue entries; without it reading them is an error.
        self._queue_repair = repair

    @property
    def damages(self) -> list[Damage]:
        """Damaged ranges of the log; nothing of them is served."""
        return self.records.damages

    def load_damages(self, damages: list[Damage]) -> None:
        """Set the damaged ranges that recovery knows."""
        self.records.damages = damages

    # By queue offset

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        count_max: int = 32,
        bytes_max: int = PULL_SIZE_MAX,
        bounds: PullBounds | None = None,
        matches: EntryFilter | None = None,
        wants: RecordFilter | None = None,
    ) -> GetResult:
        """Return records of a queue from `queue_offset` on: always the first, the others within the bounds.

        `bounds` are `self.bounds` by default. `matches` filters queue entries, `wants` the records of matching entries.
        StoreError if they cannot be read.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, self._corrected(queue_offset, 0), 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if low <= queue_offset < high:
            name = None
            bounds = bounds or self.bounds
            if queue_offset < queue.trusted_offset:
                # With a filter more entries are examined.
                count = max(count_max, bounds.entries_max) if matches or wants else count_max
                if self._is_doubtful(topic, queue, queue_offset, count):
                    name = QueueName(topic.encode(), queue_id)
            pull_query = PullQuery(bounds, count_max, bytes_max, matches, wants)
            try:
                return pull(self.records, queue, queue_offset, low, high, pull_query, name)
            except MisplacedEntries as found:
                if self._files.waiting(partial(self._is_expired, queue)):
                    name = None
                else:
                    self._repair(topic, queue_id, queue, found.start, found.end)
                return self._pull_again(queue, queue_offset, low, high, pull_query, name)
        if high == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, self._corrected(queue_offset, 0), low, high)
        if queue_offset < low:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, self._corrected(queue_offset, low), low, high)
        if queue_offset == high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, high, low, high)
        return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, self._corrected(queue_offset, high), low, high)

    def _is_doubtful(self, topic: str, queue: ConsumeQueue, queue_offset: int, count: int) -> bool:
        """Whether entries may have been damaged since they were written, and records can prove it."""
        # Light queues (LMQ) point to records of other topics.
        return queue.is_doubtful(queue_offset, queue_offset + count) and not topic.startswith(LIGHT_PREFIX)

    def _pull_again(
        self,
        queue: ConsumeQueue,
        queue_offset: int,
        low: int,
        high: int,
        pull_query: PullQuery,
        name: QueueName | None,
    ) -> GetResult:
        try:
            return pull(self.records, queue, queue_offset, low, high, pull_query, name)
        except MisplacedEntries as found:
            raise StoreError(f"entries {found.start} to {found.end} point to messages of another queue") from found

    def _repair(self, topic: str, queue_id: int, queue: ConsumeQueue, start: int, end: int) -> None:
        if self._queue_repair is None:
            raise StoreError(f"consume queue {topic}/{queue_id} is damaged between {start} and {end}")
        self._files.waiting(partial(self._queue_repair.repair, (topic, queue_id), queue, start, end))

    def _is_expired(self, queue: ConsumeQueue) -> bool:
        """Whether files of the log were deleted, and the queue was not trimmed yet."""
        first = queue.entry(queue.min_offset)
        return first is not None and not first.is_filler and 0 < first.physical_offset < self.records.first_offset

    def entries(self, topic: str, queue_id: int, queue_offset: int, count: int) -> list[Entry]:
        """Return at most `count` entries of a queue, repaired if needed; StoreError if they cannot be read."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return []
        try:
            found = list(queue.entries(queue_offset, count))
            doubtful = found[: max(0, queue.trusted_offset - queue_offset)]
            if not queue.is_doubtful(queue_offset, queue_offset + len(doubtful)):
                return found
            if not all(self._leads_to(topic, queue_id, at, entry) for at, entry in enumerate(doubtful, queue_offset)):
                self._repair(topic, queue_id, queue, queue_offset, queue_offset + len(doubtful))
                found = list(queue.entries(queue_offset, count))
            else:
                queue.note_checked(queue_offset, queue_offset + len(doubtful))
        except OSError as error:
            raise _unreadable(error) from error
        return found

    def _leads_to(self, topic: str, queue_id: int, queue_offset: int, entry: Entry) -> bool:
        if entry.is_filler or self.records.is_damaged(entry.physical_offset):
            return True
        if entry.size > self.records.size_max:
            return False
        record = self.records.at(entry.physical_offset, entry.size)
        return record is not None and is_of_queue(record, topic.encode(), queue_id, queue_offset)

    def _corrected(self, queue_offset: int, better: int) -> int:
        # A slave may lag behind, so it does not correct offsets that it does not know.
        config = self._config
        return queue_offset if config.is_slave and not config.offset_check_in_slave else better

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the first offset whose message still exists; -1 if there is no such queue, as in Java."""
        queue = self._queues.get(topic, queue_id)
        return -1 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset after the last message that can be read; 0 if there is no such queue."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def message_count(self, topic: str, queue_id: int) -> int:
        """Return the number of messages of a queue, including gaps."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset - queue.min_offset

    def physical_offset(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return the physical offset of the message at a queue offset; None if there is none, where Java returns 0."""
        entry = self._entry(topic, queue_id, queue_offset)
        return None if entry is None else entry.physical_offset

    def is_on_disk(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a message is so old that it is probably not in the page cache."""
        offset = self.physical_offset(topic, queue_id, queue_offset)
        return offset is not None and self.records.end_offset - offset > self.bounds.memory_size

    def _entry(self, topic: str, queue_id: int, queue_offset: int) -> Entry | None:
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return None
        try:
            entry = queue.entry(queue_offset)
        except OSError as error:
            raise _unreadable(error) from error
        return None if entry is None or entry.is_filler else entry

    # By physical offset

    def record_at(self, physical_offset: int, size: int | None = None) -> bytes | None:
        """Return the bytes of a record; None if it is deleted, damaged or never existed."""
        return self.records.at(physical_offset, self.records.size_at(physical_offset) if size is None else size)

    def record_of_id(self, offset_id: str) -> bytes | None:
        """Return the record of an offset message id, or None; IdError if the id is malformed.

        The address in the id is ignored, as in Java: the broker's address may have changed.
        """
        _, physical_offset = parse_offset_id(offset_id)
        return self.record_at(physical_offset)

    # By time

    def offset_at(self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER) -> int:
        """Return the queue offset for a store time; 0 if there never was a message."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0
        try:
            return offset_at(self.records, queue, timestamp, boundary)
        except OSError as error:
            raise _unreadable(error) from error

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of the message at a queue offset; -1 if there is none."""
        offset = self.physical_offset(topic, queue_id, queue_offset)
        time = None if offset is None else self.records.store_time(offset)
        return -1 if time is None else time

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Return the store time of the first message of a queue; -1 if it is empty."""
        return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    def earliest_log_time(self) -> int:
        """Return the store time of the first record of the log; -1 if it is empty."""
        time = self.records.store_time(self.records.first_offset)
        return -1 if time is None else time

    # By key

    def find(self, topic: str, key: bytes, *, count_max: int = 32) -> list[RecordSummary]:
        """Return the newest messages with this key or unique key; compares the keys, not only their hashes."""
        if self._index is None:
            return []
        offsets = find_offsets(self._index, topic, key, count_max)
        return [found for offset in offsets if (found := self.with_key(offset, topic, key)) is not None]

    def with_key(self, offset: int, topic: str, key: bytes) -> RecordSummary | None:
        """Return the message at a physical offset if it has the key."""
        record = self.record_at(offset)
        known = None if record is None else peek(record)
        if known is None or known.topic != topic:
            return None
        return known if known.unique_key == key or key in known.keys.split(b" ") else None

    def query(
        self,
        topic: str,
        key: bytes,
        *,
        count_max: int = 32,
        begin_timestamp: int = 0,
        end_timestamp: int = FOREVER,
        is_unique_key: bool = False,
    ) -> QueryResult:
        """Return the newest records with the hash of this key, in log order, as QUERY_MESSAGE does."""
        if self._index is None:
            return QueryResult()
        wanted = self.query_count(count_max, is_unique_key=is_unique_key)
        return query(self._index, self.records, topic, key, wanted, begin_timestamp, end_timestamp)

    def query_count(self, count_max: int, *, is_unique_key: bool) -> int:
        """Return how many records a query returns at most."""
        return min(self._config.default_query_max_num if is_unique_key else count_max, self._config.max_msgs_num_batch)

    def query_tag(
        self, topic: str, tag: bytes, *, count_max: int = 32, begin_timestamp: int = 0, end_timestamp: int = FOREVER
    ) -> QueryResult:
        """Like `query`, for a tag. Messages written by 4.x are not found, since it does not index tags."""
        key = tag_key(tag)
        return self.query(topic, key, count_max=count_max, begin_timestamp=begin_timestamp, end_timestamp=end_timestamp)


def _unreadable(error: OSError) -> StoreError:
    return StoreError(f"a consume queue could not be read: {error}")
