"""Finds the delayed messages that are due, and makes of them what is put back."""

import logging
from collections.abc import Iterator, Mapping

import msgspec

from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.peek import Peek, peek
from kerolox.message.record import decode, encode, stamp
from kerolox.message.sysflag import is_queued
from kerolox.store.delay.delays import due_timestamp, restored
from kerolox.store.errors import NotStorable, StoreError
from kerolox.store.log.commit_log import Draft
from kerolox.store.queue.consume_queue import ConsumeQueue, Entry
from kerolox.store.queue.queues import check_name
from kerolox.store.reader import Reader

log = logging.getLogger(__name__)

# One write carries at most so much, and then others have their turn.
COUNT_MAX = 256
BYTES_MAX = 1024 * 1024

# What is less is no time in a queue of delayed messages, but a place in files that are not read here.
_TIME_MIN = 10**11


class Due(msgspec.Struct, frozen=True):
    """What is to be put back with one write, and where to go on afterwards."""

    drafts: list[Draft]
    # For each draft, the offset that follows it in the queue of its level.
    next_offsets: list[int]
    # After the last that was looked at, whether or not something is put back for it.
    end_offset: int
    # In how many seconds the next is due, if the queue has one that is not.
    seconds: float | None


class DueMessages:
    """Reads the queues of levels. What cannot be put back is left out, with a line in the log."""

    def __init__(self, reader: Reader, levels: Mapping[int, int], *, draft_size_max: int) -> None:
        self._reader = reader
        self._levels = levels
        self._draft_size_max = draft_size_max
        # By level, how many messages came in an earlier life of the store; and when that ended.
        self._earlier: Mapping[int, int] = {}
        self._earlier_end = 0

    def doubt(self, earlier: Mapping[int, int], earlier_end: int) -> None:
        """Lets messages before these offsets be looked for in the log, if they were due by then."""
        self._earlier, self._earlier_end = earlier, earlier_end

    def find(self, level: int, queue: ConsumeQueue, offset: int, now: int) -> Due:
        """Returns what of a level's queue is due, from `offset` on; StoreError if it cannot be read now."""
        drafts: list[Draft] = []
        next_offsets: list[int] = []
        size = 0
        for entry in _entries(queue, offset):
            remaining = self._remaining(level, entry, now)
            if remaining > 0:
                return Due(drafts, next_offsets, offset, remaining / 1000)
            if drafts and size + entry.size > BYTES_MAX:
                break
            draft = None if entry.is_filler else self._draft(level, entry, offset)
            offset += 1
            if draft is not None:
                drafts.append(draft)
                next_offsets.append(offset)
                size += len(draft.records)
        return Due(drafts, next_offsets, offset, None)

    def _remaining(self, level: int, entry: Entry, now: int) -> int:
        """Returns in how many milliseconds a message is due.

        None is due later than if it had been sent now: then the clock was set back, and it has waited long enough.
        """
        if entry.is_filler:
            return 0
        remaining = self._due_millis(level, entry) - now
        return 0 if remaining > self._levels[level] else remaining

    def _due_millis(self, level: int, entry: Entry) -> int:
        if entry.tags_code >= _TIME_MIN:
            return entry.tags_code
        record = self._reader.record_at(entry.physical_offset, entry.size)
        try:
            return due_timestamp(self._levels, level, peek(record).store_timestamp) if record else 0
        except RecordError:
            return 0

    def _draft(self, level: int, entry: Entry, offset: int) -> Draft | None:
        record = self._reader.record_at(entry.physical_offset, entry.size)
        if record is None:
            log.error("level %d: the message at %d is gone or damaged", level, entry.physical_offset)
            return None
        try:
            draft = self._restored(record)
        except (RecordError, MessageIllegal, NotStorable) as error:
            log.error("level %d: the message at %d is not delivered: %s", level, entry.physical_offset, error)
            return None
        if self._is_doubted(level, entry, offset) and self._is_delivered(draft, entry.physical_offset):
            log.debug("level %d: the message at %d was delivered before", level, entry.physical_offset)
            return None
        return draft

    def _restored(self, record: bytes) -> Draft:
        # A new record gets a new checksum, which must not vouch for a body that was damaged.
        message = restored(decode(record, check_crc=True))
        check_name(message.topic, message.queue_id)
        records = encode(message, len(message.body))
        if len(records) > self._draft_size_max:
            raise NotStorable(f"{len(records)} bytes, at most {self._draft_size_max} fit into a file")
        return Draft(message.topic, message.queue_id, records, is_queued=is_queued(message.sys_flag))

    def _is_doubted(self, level: int, entry: Entry, offset: int) -> bool:
        """Whether a message was due, or taken for due after the clock was set back, in an earlier life."""
        end = self._earlier_end
        return offset < self._earlier.get(level, 0) and not end < entry.tags_code <= end + self._levels[level]

    def _is_delivered(self, draft: Draft, waited_at: int) -> bool:
        """Whether the log has this very record after the one that waited."""
        key = peek(draft.records).unique_key
        for known in self._found(draft.topic, key) if key else ():
            if known.physical_offset > waited_at and known.size == len(draft.records):
                stamp(draft.records, known.queue_offset, known.physical_offset, known.store_timestamp)
                if self._reader.record_at(known.physical_offset, known.size) == bytes(draft.records):
                    return True
        return False

    def _found(self, topic: str, key: bytes) -> list[Peek]:
        try:
            return self._reader.find(topic, key)
        except RecordError as error:
            log.warning("a message with key %r cannot be looked for: %s", key, error)
            return []


def _entries(queue: ConsumeQueue, offset: int) -> Iterator[Entry]:
    try:
        yield from queue.entries(offset, COUNT_MAX)
    except OSError as error:
        raise StoreError(f"a queue of delayed messages could not be read: {error}") from error
