"""Reads a store: by queue offset, by physical offset, by time, by key."""

import asyncio

from kerolox.message.ids import parse_offset_id
from kerolox.message.peek import Peek, peek
from kerolox.store.configuration import StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.keys.key_index import KeyIndex, tag_key
from kerolox.store.keys.key_query import FOREVER, Queried, find_offsets, query, search, search_offsets
from kerolox.store.log.commit_log import CommitLog
from kerolox.store.log.records import Records
from kerolox.store.log.scan import Damage
from kerolox.store.log.segments import Brought, Segments
from kerolox.store.queue.consume_queue import Entry
from kerolox.store.queue.pull import (
    PULL_SIZE_MAX,
    GetStatus,
    Got,
    Matches,
    PullBounds,
    Wants,
    bounds_of,
    bulk_bounds_of,
    pull,
)
from kerolox.store.queue.queues import Queues
from kerolox.store.queue.times import Boundary, offset_at

__all__ = ["Boundary", "GetStatus", "Got", "PullBounds", "Queried", "Reader"]


class Reader:
    """Plain functions over what the dispatcher has shown; StoreError where the disk does not give it."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: Queues,
        index: KeyIndex | None,
        config: StoreConfig | None = None,
        segments: Segments | None = None,
    ) -> None:
        self._config = config or StoreConfig()
        self.records = Records(commit_log, segments, body_size_max=self._config.max_message_size)
        self._files = queues.files
        self._queues = queues
        self._index = index
        self.bounds = bounds_of(self._config)
        self.bulk_bounds = bulk_bounds_of(self._config)
        self.records.mapped_size = min(self._config.mapped_bytes_max, self.bounds.memory_size)
        # A replica that lags behind does not know better than a consumer where that stood.
        self.is_slave = False

    @property
    def damages(self) -> list[Damage]:
        """Ranges of the log that hold no record; nothing of them is served."""
        return self.records.damages

    @damages.setter
    def damages(self, damages: list[Damage]) -> None:
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
        matches: Matches | None = None,
        wants: Wants | None = None,
        brought: Brought | None = None,
    ) -> Got:
        """Returns records of a queue from `queue_offset` on; the first always, the rest as far as the bounds allow.

        The bounds are `self.bounds` unless others are given.
        `matches` judges entries of the queue, `wants` the records of those that match. StoreError if they could not
        be read. With what was `brought` from the disk, were it nothing, it does not wait for the disk: NotInMemory if
        that would be needed.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return Got(GetStatus.NO_MATCHED_LOGIC_QUEUE, self._corrected(queue_offset, 0), 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if low <= queue_offset < high:
            self._files.brought = brought
            try:
                return pull(
                    self.records,
                    queue,
                    queue_offset,
                    low,
                    high,
                    bounds or self.bounds,
                    count_max,
                    bytes_max,
                    matches,
                    wants,
                )
            finally:
                self._files.brought = None
        if high == 0:
            return Got(GetStatus.NO_MESSAGE_IN_QUEUE, self._corrected(queue_offset, 0), low, high)
        if queue_offset < low:
            return Got(GetStatus.OFFSET_TOO_SMALL, self._corrected(queue_offset, low), low, high)
        if queue_offset == high:
            return Got(GetStatus.OFFSET_OVERFLOW_ONE, high, low, high)
        return Got(GetStatus.OFFSET_OVERFLOW_BADLY, self._corrected(queue_offset, high), low, high)

    def _corrected(self, queue_offset: int, better: int) -> int:
        return queue_offset if self.is_slave and not self._config.offset_check_in_slave else better

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Returns the first offset whose message is still there; -1 if there is no such queue, as Java says."""
        queue = self._queues.get(topic, queue_id)
        return -1 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Returns the offset after the last message that can be read; 0 if there is no such queue."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def message_count(self, topic: str, queue_id: int) -> int:
        """Returns how many messages of a queue are still there, the missing ones in between included."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset - queue.min_offset

    def physical_offset(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Returns where the message at a queue offset lies; None if there is none, for which Java says 0."""
        entry = self._entry(topic, queue_id, queue_offset)
        return None if entry is None else entry.physical_offset

    def is_on_disk(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a message is so old that it is probably not in memory any more."""
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
        """Returns the bytes of a record, or None if the log no longer has it, or never had, or it is damaged."""
        return self.records.at(physical_offset, self.records.size_at(physical_offset) if size is None else size)

    def record_of_id(self, offset_id: str) -> bytes | None:
        """Returns the record that an offset id names, or None; IdError if it is none.

        Whose address it has does not matter, as in Java: a broker may have got another since.
        """
        _, physical_offset = parse_offset_id(offset_id)
        return self.record_at(physical_offset)

    # By time

    def offset_at(self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER) -> int:
        """Returns the offset of the message that is meant by a time; 0 if there never was one."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0
        try:
            return offset_at(self.records, queue, timestamp, boundary)
        except OSError as error:
            raise _unreadable(error) from error

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Returns when the message at a queue offset was stored; -1 if there is none."""
        offset = self.physical_offset(topic, queue_id, queue_offset)
        time = None if offset is None else self.records.store_time(offset)
        return -1 if time is None else time

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Returns when the first message of a queue was stored; -1 if it has none."""
        return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    def earliest_log_time(self) -> int:
        """Returns when the first record of the log was stored; -1 if it has none."""
        time = self.records.store_time(self.records.first_offset)
        return -1 if time is None else time

    # By key

    def find(self, topic: str, key: bytes, *, count_max: int = 32) -> list[Peek]:
        """Returns the newest messages with this key or unique key; their keys were compared, not only hashes."""
        if self._index is None:
            return []
        offsets = find_offsets(self._index, topic, key, count_max)
        return [found for offset in offsets if (found := self._with_key(offset, topic, key)) is not None]

    async def look_for(self, topic: str, key: bytes, *, count_max: int = 32) -> list[Peek]:
        """Returns the same, and lets others have their turn while it looks; for keys that a stranger chooses."""
        if self._index is None:
            return []
        found: list[Peek] = []
        for offset in await search_offsets(self._index, topic, key, count_max):
            known = self._with_key(offset, topic, key)
            if known is not None:
                found.append(known)
            await asyncio.sleep(0)
        return found

    def _with_key(self, offset: int, topic: str, key: bytes) -> Peek | None:
        """Returns the message at an offset if it has the key."""
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
    ) -> Queried:
        """Answers as QUERY_MESSAGE does: the newest records with the hash of this key, in the order of the log."""
        if self._index is None:
            return Queried()
        wanted = self._wanted(count_max, is_unique_key=is_unique_key)
        return query(self._index, self.records, topic, key, wanted, begin_timestamp, end_timestamp)

    async def search(
        self,
        topic: str,
        key: bytes,
        *,
        count_max: int = 32,
        begin_timestamp: int = 0,
        end_timestamp: int = FOREVER,
        is_unique_key: bool = False,
    ) -> Queried:
        """Answers the same, and lets others have their turn while it looks; for keys that a stranger chooses."""
        if self._index is None:
            return Queried()
        wanted = self._wanted(count_max, is_unique_key=is_unique_key)
        return await search(self._index, self.records, topic, key, wanted, begin_timestamp, end_timestamp)

    def _wanted(self, count_max: int, *, is_unique_key: bool) -> int:
        return min(self._config.default_query_max_num if is_unique_key else count_max, self._config.max_msgs_num_batch)

    def query_tag(
        self, topic: str, tag: bytes, *, count_max: int = 32, begin_timestamp: int = 0, end_timestamp: int = FOREVER
    ) -> Queried:
        """Answers the same for a tag; what 4.x has written is not found by it."""
        key = tag_key(tag)
        return self.query(topic, key, count_max=count_max, begin_timestamp=begin_timestamp, end_timestamp=end_timestamp)


def _unreadable(error: OSError) -> StoreError:
    return StoreError(f"a consume queue could not be read: {error}")
