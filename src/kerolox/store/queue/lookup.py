"""Reads messages of a queue from an offset on, within limits (DefaultMessageStore.getMessage)."""

import os
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import chain
from time import perf_counter
from typing import NamedTuple

import msgspec

from kerolox.store.config import StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.log.records import Gathered, Records, Run, split_records
from kerolox.store.queue.consume_queue import ENTRY, ENTRY_SIZE, FILLER_SIZE, ConsumeQueue
from kerolox.store.queue.contiguous import contiguous_ranges
from kerolox.store.queue.entry_check import are_of_queue
from kerolox.store.queue.queue_ext import ADDRESS_MAX, ExtUnit, valid_tags_code

# Limits for the byte count of any pull.
PULL_SIZE_MAX = 128 * 1024 * 1024
_PULL_SIZE_MIN = 100
# At most this many entries are examined per pull, however many messages it asks for, because the event loop waits.
_EXAMINED_MAX = 4096
# Bytes of records filtered between two looks at the clock. Filtering time depends on the properties, and a record with
# many properties is large.
_FILTERED_AT_ONCE = 64 * 1024

# Filters by the tags code, None if it is unknown, and by the queue-ext unit (MessageFilter.isMatchedByConsumeQueue).
EntryFilter = Callable[[int | None, ExtUnit | None], bool]
# Filters by the bytes of the record (MessageFilter.isMatchedByCommitLog).
RecordFilter = Callable[[bytes], bool]


class GetStatus(Enum):
    """Result of reading a queue (GetMessageStatus)."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    # The offset of the group was reset; set by the broker, not by the store.
    OFFSET_RESET = "OFFSET_RESET"


class GetResult(msgspec.Struct, frozen=True, gc=False):
    """Records of a queue and the offset to continue from (GetMessageResult).

    `runs` concatenated are all records; `records` splits them.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    runs: list[Run] = []
    count: int = 0
    size: int = 0
    # Whether the messages are so old that a slave should serve them (suggestPullingFromSlave).
    suggests_slave: bool = False
    # Physical offset of the last message examined; -1 if there was none.
    last_offset: int = -1

    @property
    def records(self) -> list[bytes]:
        return [record for run in self.runs for record in split_records(run)]


class QueueName(NamedTuple):
    """Topic and queue id as the records of a queue contain them."""

    topic: bytes
    queue_id: int


class MisplacedEntries(Exception):
    """Some of the entries examined, from `start` to `end`, do not point to messages of their queue."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        self.start = start
        self.end = end


class PullBounds(msgspec.Struct, frozen=True):
    """Limits of a pull in messages and bytes, for records in memory and on disk."""

    in_memory: tuple[int, int] = (32, 256 * 1024)
    on_disk: tuple[int, int] = (8, 64 * 1024)
    # Length of the log's tail that is assumed to be in memory.
    memory_size: int = 2**62
    # Entries examined to find messages that match.
    entries_max: int = 800
    # Time limit for filtering records.
    look_seconds: float = 0.05


class PullQuery(msgspec.Struct, frozen=True, gc=False):
    """The limits and filters of one pull."""

    bounds: PullBounds
    count_max: int
    bytes_max: int
    matches: EntryFilter | None = None
    wants: RecordFilter | None = None


def bounds_of(config: StoreConfig, physical_memory: int | None = None) -> PullBounds:
    """Return the configured limits for a machine with this much memory; by default for this machine."""
    if physical_memory is None:
        physical_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return PullBounds(
        (config.max_transfer_count_on_message_in_memory, config.max_transfer_bytes_on_message_in_memory),
        (config.max_transfer_count_on_message_in_disk, config.max_transfer_bytes_on_message_in_disk),
        int(physical_memory * (config.access_message_in_memory_max_ratio / 100)),
        -(-config.max_filter_message_size // ENTRY_SIZE),
        config.pull_look_millis_max / 1000,
    )


def bulk_bounds_of(config: StoreConfig) -> PullBounds:
    """Return the configured limits of bulk pulls, which ask for more than consumers do."""
    bulk = config.bulk_pull_count_max, config.bulk_pull_bytes_max
    entries_max = -(-config.max_filter_message_size // ENTRY_SIZE)
    return PullBounds(bulk, bulk, entries_max=entries_max, look_seconds=config.pull_look_millis_max / 1000)


def pull(
    records: Records,
    queue: ConsumeQueue,
    queue_offset: int,
    low: int,
    high: int,
    query: PullQuery,
    name: QueueName | None = None,
) -> GetResult:
    """Return records from `queue_offset` on, which must be in [low, high), the offsets of the queue.

    The first record found is returned even if it exceeds the limits. With a `name` the entries are not trusted:
    MisplacedEntries if they point to anything but messages of this queue with the right queue offsets.
    """
    bounds, bytes_max = query.bounds, query.bytes_max
    if not _PULL_SIZE_MIN <= bytes_max <= PULL_SIZE_MAX:
        bytes_max = max(_PULL_SIZE_MIN, min(bytes_max, PULL_SIZE_MAX))
    on_disk_before = records.end_offset - bounds.memory_size
    if query.matches is None and query.wants is None:
        # Usually all records exist, are recent enough and in one file.
        most, most_bytes = bounds.in_memory
        count = high - queue_offset
        if count > most:
            count = most
        if count > query.count_max:
            count = query.count_max
        data = _read(queue, queue_offset, count)
        if 0 < len(data) < count * ENTRY_SIZE:
            # The rest of the entries is in the next file, or in memory.
            data = b"".join(_blocks(queue, queue_offset, count, count))
        if most_bytes > bytes_max:
            most_bytes = bytes_max
        ranges = contiguous_ranges(data, most_bytes)
        count = ranges.count
        if count and ranges.starts[0] >= on_disk_before and (runs := records.runs(ranges)) is not None:
            end = queue_offset + count
            if name is not None:
                _check(runs, name, range(queue_offset, end), queue_offset, end)
                queue.note_checked(queue_offset, end)
            return GetResult(GetStatus.FOUND, end, low, high, runs, count, ranges.size, False, ranges.last)
    return _pull_each(records, queue, queue_offset, (low, high), query, name, bytes_max)


def _pull_each(
    records: Records,
    queue: ConsumeQueue,
    queue_offset: int,
    offsets: tuple[int, int],
    query: PullQuery,
    name: QueueName | None,
    bytes_max: int,
) -> GetResult:
    """Return the result of `pull`, with a look at each entry."""
    bounds, matches, wants = query.bounds, query.matches, query.wants
    low, high = offsets
    first, end, size_max = records.first_offset, records.end_offset, records.size_max
    count_max, on_disk_before = query.count_max, end - bounds.memory_size
    in_memory = min(count_max, bounds.in_memory[0]), min(bytes_max, bounds.in_memory[1])
    on_disk = min(count_max, bounds.on_disk[0]), min(bytes_max, bounds.on_disk[1])
    entries_max = min(high - queue_offset, max(bounds.entries_max, min(count_max, _EXAMINED_MAX)))
    step = entries_max if matches or wants else max(in_memory[0] + 1, 1)
    found = Gathered([])
    # Physical offset and size of the records to read next.
    locations: list[tuple[int, int]] = []
    # Totals: records found plus `locations`.
    count = size = 0
    next_offset, last = queue_offset, 0
    missing_offset = rejected_offset = -1
    # Bytes of `locations`, whose records are filtered together.
    unfiltered = 0
    # For the check by `name`: end of the last record, whether entries are in log order, and physical → queue offset.
    last_end, is_ordered = 0, True
    queue_offsets: dict[int, int] = {}
    deadline = perf_counter() + bounds.look_seconds
    for physical_offset, length, tags_code in _entries(queue, queue_offset, entries_max, step):
        if count:
            most, most_bytes = in_memory if physical_offset >= on_disk_before else on_disk
            if count >= most or size + length > most_bytes or (wants is not None and unfiltered >= _FILTERED_AT_ONCE):
                records.gather(found, locations, wants)
                locations, count, size, unfiltered = [], found.count, found.size, 0
                # Records that were missing or rejected have left room for others.
                if count and (count >= most or size + length > most_bytes):
                    break
                if wants is not None and perf_counter() >= deadline:
                    # The consumer pulls again from here, and other requests get their turn meanwhile.
                    break
        next_offset += 1
        last = physical_offset
        if name is not None and length != FILLER_SIZE:
            is_ordered &= last_end <= physical_offset and 0 < length <= end - physical_offset
            last_end = physical_offset + length
            queue_offsets[physical_offset] = next_offset - 1
        if matches is not None:
            known: int | None = tags_code
            unit = None
            if tags_code <= ADDRESS_MAX:
                known, unit = valid_tags_code(queue, tags_code)
            if not matches(known, unit):
                rejected_offset = physical_offset
                continue
        # A size above `size_max` is a filler or a damaged entry.
        if physical_offset < first or length > size_max:
            missing_offset = physical_offset
            is_ordered &= length == FILLER_SIZE
            continue
        locations.append((physical_offset, length))
        count += 1
        size += length
        unfiltered += length
    records.gather(found, locations, wants)
    if name is not None:
        if not is_ordered or not all(map(records.is_damaged, found.missing)):
            raise MisplacedEntries(queue_offset, next_offset)
        _check(found.runs, name, [queue_offsets[start] for start in found.starts], queue_offset, next_offset)
        if matches is None and wants is None:
            queue.note_checked(queue_offset, next_offset)
    suggests_slave = end - last > bounds.memory_size
    if found.count:
        return GetResult(
            GetStatus.FOUND, next_offset, low, high, found.runs, found.count, found.size, suggests_slave, last
        )
    status = GetStatus.NO_MATCHED_MESSAGE
    if next_offset == queue_offset:
        status, next_offset = GetStatus.OFFSET_FOUND_NULL, queue.next_file_start(queue_offset)
    elif max(missing_offset, found.missing_offset) > max(rejected_offset, found.rejected_offset):
        status = GetStatus.MESSAGE_WAS_REMOVING
    return GetResult(status, next_offset, low, high, suggests_slave=suggests_slave)


def _check(runs: Sequence[Run], name: QueueName, queue_offsets: Sequence[int], start: int, end: int) -> None:
    if not are_of_queue(runs, *name, queue_offsets):
        raise MisplacedEntries(start, end)


def _entries(queue: ConsumeQueue, queue_offset: int, count: int, step: int) -> Iterator[tuple[int, int, int]]:
    """Yield entries as plain tuples; `step` of them are read at a time."""
    return chain.from_iterable(ENTRY.iter_unpack(data) for data in _blocks(queue, queue_offset, count, step))


def _blocks(queue: ConsumeQueue, queue_offset: int, count: int, step: int) -> Iterator[bytes]:
    end = queue_offset + count
    while queue_offset < end:
        data = _read(queue, queue_offset, min(step, end - queue_offset))
        if not data:
            return
        yield data
        queue_offset += len(data) // ENTRY_SIZE


def _read(queue: ConsumeQueue, queue_offset: int, count: int) -> bytes:
    try:
        return queue.read(queue_offset, count)
    except OSError as error:
        raise StoreError(f"a consume queue could not be read: {error}") from error
