"""Reads a store: by queue offset, by physical offset, by key."""

import struct
from collections.abc import Callable, Iterator
from enum import Enum

import msgspec

from kerolox.message.peek import Peek, peek
from kerolox.message.record import MAGIC_V1, MAGIC_V2
from kerolox.store.commit_log import CommitLog
from kerolox.store.consume_queue import ConsumeQueue, Entry
from kerolox.store.errors import StoreError
from kerolox.store.key_index import KeyIndex
from kerolox.store.queues import Queues
from kerolox.store.scan import Damage

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


class Reader:
    """Plain functions over what the dispatcher has shown; StoreError where the disk does not give it."""

    def __init__(self, commit_log: CommitLog, queues: Queues, index: KeyIndex | None) -> None:
        self._log = commit_log
        self._queues = queues
        self._index = index
        # Ranges of the log that hold no record; nothing of them is served.
        self.damages: list[Damage] = []

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
        queue = self._queues.get(topic, queue_id)
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
        if not self._log.first_offset <= physical_offset < self._log.end_offset:
            return b""
        try:
            return self._log.read(physical_offset, size)
        except OSError as error:
            raise StoreError(f"the commit log could not be read at {physical_offset}: {error}") from error

    def find(self, topic: str, key: bytes, *, count_max: int = 32) -> list[Peek]:
        """Returns the newest messages with this key or unique key; their keys were compared, not only hashes."""
        if self._index is None:
            return []
        found: list[Peek] = []
        for offset in self._query(self._index, topic, key, count_max):
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
