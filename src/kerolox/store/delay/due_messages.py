"""Finds the delayed messages that are due and encodes them for delivery."""

import logging
from collections.abc import Mapping

import msgspec

from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.records.record import decode, encode, stamp
from kerolox.message.records.summary import RecordSummary, peek
from kerolox.message.sysflag import is_queued
from kerolox.store.delay.delay_levels import SCHEDULE_TOPIC, due_timestamp, restore_message
from kerolox.store.errors import NotStorable
from kerolox.store.log.commit_log import Append
from kerolox.store.queue.consume_queue import Entry
from kerolox.store.queue.queues import check_name
from kerolox.store.reader import Reader

log = logging.getLogger(__name__)

# Limits of one delivery, after which other tasks may run.
COUNT_MAX = 256
BYTES_MAX = 1024 * 1024

# Smaller tags codes are not a delivery time but the address of a ConsumeQueueExt unit, which is not read here.
_TIME_MIN = 10**11


class Due(msgspec.Struct, frozen=True):
    """Messages to deliver with one write, and where to continue."""

    appends: list[Append]
    # For each append, the next offset in the queue of its level.
    next_offsets: list[int]
    # The next offset after the last entry examined, whether or not it is delivered.
    end_offset: int
    # Seconds until the next message is due; None at the end of the queue.
    seconds: float | None


class DueMessages:
    """Reads the queues of delay levels. Messages that cannot be delivered are logged and skipped."""

    def __init__(self, reader: Reader, levels: Mapping[int, int], *, append_size_max: int) -> None:
        self._reader = reader
        self._levels = levels
        self._append_size_max = append_size_max
        # Delay level → end of its queue at startup, and the store time of the last record then.
        self._startup_offsets: Mapping[int, int] = {}
        self._startup_timestamp = 0

    def check_deliveries_before(self, queue_offsets: Mapping[int, int], timestamp: int) -> None:
        """Make `find` check in the log whether messages before these offsets were delivered before the restart."""
        self._startup_offsets, self._startup_timestamp = queue_offsets, timestamp

    def find(self, level: int, offset: int, now: int) -> Due:
        """Return the due messages of a level from `offset` on; StoreError if they cannot be read."""
        appends: list[Append] = []
        next_offsets: list[int] = []
        size = 0
        for entry in self._reader.entries(SCHEDULE_TOPIC, level - 1, offset, COUNT_MAX):
            remaining = self._remaining_millis(level, entry, now)
            if remaining > 0:
                return Due(appends, next_offsets, offset, remaining / 1000)
            if appends and size + entry.size > BYTES_MAX:
                break
            append = None if entry.is_filler else self._append_of(level, entry, offset)
            offset += 1
            if append is not None:
                appends.append(append)
                next_offsets.append(offset)
                size += len(append.records)
        return Due(appends, next_offsets, offset, None)

    def _remaining_millis(self, level: int, entry: Entry, now: int) -> int:
        """Return the milliseconds until a message is due.

        If that is longer than the level's delay, the clock was set back, and the message is due now.
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

    def _append_of(self, level: int, entry: Entry, offset: int) -> Append | None:
        record = self._reader.record_at(entry.physical_offset, entry.size)
        if record is None:
            log.error("level %d: the message at %d is gone or damaged", level, entry.physical_offset)
            return None
        try:
            append = self._encode_restored(record)
        except (RecordError, MessageIllegal, NotStorable) as error:
            log.error("level %d: the message at %d is not delivered: %s", level, entry.physical_offset, error)
            return None
        if self._may_be_delivered(level, entry, offset) and self._is_delivered(append, entry.physical_offset):
            log.debug("level %d: the message at %d was delivered before the restart", level, entry.physical_offset)
            return None
        return append

    def _encode_restored(self, record: bytes) -> Append:
        # The new record gets a new checksum, so a damaged body must be detected here.
        message = restore_message(decode(record, check_crc=True))
        check_name(message.topic, message.queue_id)
        records = encode(message, len(message.body))
        if len(records) > self._append_size_max:
            raise NotStorable(f"a record of {len(records)} bytes, at most {self._append_size_max} fit into a file")
        return Append(message.topic, message.queue_id, records, is_queued=is_queued(message.sys_flag))

    def _may_be_delivered(self, level: int, entry: Entry, offset: int) -> bool:
        """Whether a message may have been delivered before the restart: it was due, or the clock was set back."""
        end = self._startup_timestamp
        return offset < self._startup_offsets.get(level, 0) and not end < entry.tags_code <= end + self._levels[level]

    def _is_delivered(self, append: Append, delayed_at: int) -> bool:
        """Whether the log has the same record after the delayed one."""
        key = peek(append.records).unique_key
        for known in self._find_by_key(append.topic, key) if key else ():
            if known.physical_offset > delayed_at and known.size == len(append.records):
                stamp(append.records, known.queue_offset, known.physical_offset, known.store_timestamp)
                if self._reader.record_at(known.physical_offset, known.size) == bytes(append.records):
                    return True
        return False

    def _find_by_key(self, topic: str, key: bytes) -> list[RecordSummary]:
        try:
            return self._reader.find(topic, key)
        except RecordError as error:
            log.warning("cannot look up a message by its key %r: %s", key, error)
            return []
