"""Reads a queue as consumers do: some records from an offset on, within bounds."""

import functools
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import accumulate, chain, takewhile
from time import perf_counter

import msgspec

from kerolox.store.configuration import StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.log.records import Gathered, Records, Run, Stretch, cut_records
from kerolox.store.queue.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue
from kerolox.store.queue.queue_ext import ADDRESS_MAX, ExtUnit, valid_tags_code
from kerolox.store.queue.stretches import side_by_side, stretches

# What any pull may carry, whatever it asks for.
PULL_SIZE_MAX = 128 * 1024 * 1024
_PULL_SIZE_MIN = 100
# More entries are not looked through at once, however many messages are asked for: others wait meanwhile.
_LOOKED_THROUGH_MAX = 4096
# Up to so many are unpacked in one go; consumers ask for no more, unless they are told to.
_FEW = 64
# After so many bytes of records that had to be judged it is seen how long that took. What takes long are properties,
# and a record that has many is large.
_JUDGED_AT_ONCE = 64 * 1024

# Judges a message by its tags code, None if that is not known, and by what else the queue has of it.
Matches = Callable[[int | None, ExtUnit | None], bool]
# Judges it by the bytes of its record.
Wants = Callable[[bytes], bool]


class GetStatus(Enum):
    """What came of reading a queue, under the names Java gives it."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    # Said by a broker whose group was told to go on elsewhere.
    OFFSET_RESET = "OFFSET_RESET"


class Got(msgspec.Struct, frozen=True, gc=False):
    """Records as they lie in the log, and where to go on reading.

    `runs` joined are all records, one after the other; `records` are the same, each by itself.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    runs: list[Run] = []
    count: int = 0
    size: int = 0
    # What was read is so old that a replica should rather serve it.
    suggests_slave: bool = False
    # Where in the log the last message begins that was looked at; -1 if there was none.
    last_offset: int = -1

    @property
    def records(self) -> list[bytes]:
        return [record for run in self.runs for record in cut_records(run)]


class PullBounds(msgspec.Struct, frozen=True):
    """How much a pull may carry: messages and bytes, of what is in memory and of what is not."""

    in_memory: tuple[int, int] = (32, 256 * 1024)
    on_disk: tuple[int, int] = (8, 64 * 1024)
    # So much of the log's end is taken to be in memory.
    memory_size: int = 2**62
    # So many entries are looked through for messages that match.
    entries_max: int = 800
    # For so long at the most, if their records have to be judged.
    look_seconds: float = 0.05


def bounds_of(config: StoreConfig, physical_memory: int | None = None) -> PullBounds:
    """Returns what the configuration allows, on a machine of this much memory; on this one if it is not said."""
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
    """Returns what it allows to those who ask for more than consumers do."""
    bulk = config.bulk_pull_count_max, config.bulk_pull_bytes_max
    entries_max = -(-config.max_filter_message_size // ENTRY_SIZE)
    return PullBounds(bulk, bulk, entries_max=entries_max, look_seconds=config.pull_look_millis_max / 1000)


def pull(
    records: Records,
    queue: ConsumeQueue,
    queue_offset: int,
    low: int,
    high: int,
    bounds: PullBounds,
    count_max: int,
    bytes_max: int,
    matches: Matches | None,
    wants: Wants | None,
) -> Got:
    """Returns records from `queue_offset` on, which must be one of the queue's; the first that is found always fits.

    The queue has its offsets from `low` to `high`.
    """
    if not _PULL_SIZE_MIN <= bytes_max <= PULL_SIZE_MAX:
        bytes_max = max(_PULL_SIZE_MIN, min(bytes_max, PULL_SIZE_MAX))
    most, most_bytes = bounds.in_memory
    in_memory = min(count_max, most), min(bytes_max, most_bytes)
    on_disk_before = records.end_offset - bounds.memory_size
    if matches is None and wants is None:
        got = _pull_plain(records, queue, queue_offset, low, high, in_memory, on_disk_before)
        if got is not None:
            return got

    first, end, size_max = records.first_offset, records.end_offset, records.size_max
    on_disk = min(count_max, bounds.on_disk[0]), min(bytes_max, bounds.on_disk[1])
    entries_max = min(high - queue_offset, max(bounds.entries_max, min(count_max, _LOOKED_THROUGH_MAX)))
    step = entries_max if matches or wants else max(in_memory[0] + 1, 1)
    found = Gathered([])
    places: list[tuple[int, int]] = []
    # Of those found, and of those that are likely to be.
    count = size = 0
    next_offset, last = queue_offset, 0
    missing_offset = refused_offset = -1
    # Of those that are to be judged together.
    unjudged = 0
    deadline = perf_counter() + bounds.look_seconds
    for physical_offset, length, tags_code in _entries(queue, queue_offset, entries_max, step):
        if count:
            most, most_bytes = in_memory if physical_offset >= on_disk_before else on_disk
            if count >= most or size + length > most_bytes or (wants is not None and unjudged >= _JUDGED_AT_ONCE):
                records.gather(found, places, wants)
                places, count, size, unjudged = [], found.count, found.size, 0
                # If some were not there, there is room again.
                if count and (count >= most or size + length > most_bytes):
                    break
                if wants is not None and perf_counter() >= deadline:
                    # Whoever asks again goes on from here, and meanwhile others have their turn.
                    break
        next_offset += 1
        last = physical_offset
        if matches is not None:
            known: int | None = tags_code
            unit = None
            if tags_code <= ADDRESS_MAX:
                known, unit = valid_tags_code(queue, tags_code)
            if not matches(known, unit):
                refused_offset = physical_offset
                continue
        # No record is as large as a file: it is a filler, or nonsense.
        if physical_offset < first or length > size_max:
            missing_offset = physical_offset
            continue
        places.append((physical_offset, length))
        count += 1
        size += length
        unjudged += length
    records.gather(found, places, wants)
    suggests_slave = end - last > bounds.memory_size
    if found.count:
        return Got(GetStatus.FOUND, next_offset, low, high, found.runs, found.count, found.size, suggests_slave, last)
    status = GetStatus.NO_MATCHED_MESSAGE
    if next_offset == queue_offset:
        status, next_offset = GetStatus.OFFSET_FOUND_NULL, queue.next_file(queue_offset)
    elif max(missing_offset, found.missing_offset) > max(refused_offset, found.refused_offset):
        status = GetStatus.MESSAGE_WAS_REMOVING
    return Got(status, next_offset, low, high, suggests_slave=suggests_slave)


def _pull_plain(
    records: Records,
    queue: ConsumeQueue,
    queue_offset: int,
    low: int,
    high: int,
    bounds: tuple[int, int],
    on_disk_before: int,
) -> Got | None:
    """Returns what most pulls find: records in memory, all of them there and in one file; None if it is not so."""
    count, bytes_max = bounds
    if count > high - queue_offset:
        count = high - queue_offset
    data = _read(queue, queue_offset, count)
    if 0 < len(data) < count * ENTRY_SIZE:
        # The rest is in the next file, or in memory.
        data = b"".join(_blocks(queue, queue_offset, count, count))
    if 1 < count <= _FEW and len(data) == count * ENTRY_SIZE:
        # Most often they lie side by side, and of those in between no more is wanted than how long they are.
        fields = side_by_side(count).unpack(data)
        first, last = fields[0], fields[-2]
        end, size = last + fields[-1], sum(fields) - first - last
        if end - first == size and 0 < size <= bytes_max and first >= on_disk_before:
            run = records.run(first, end)
            if run is not None:
                return Got(GetStatus.FOUND, queue_offset + count, low, high, [run], count, size, False, last)
    if len(data) > _FEW * ENTRY_SIZE and (found := stretches(data, bytes_max)) is not None:
        return _pull_stretches(records, queue_offset, low, high, *found, on_disk_before)
    starts, sizes = _columns(data)
    size = sum(sizes)
    if size > bytes_max:
        count = sum(1 for _ in takewhile(bytes_max.__ge__, accumulate(sizes))) or 1
        starts, sizes = starts[:count], sizes[:count]
        size = sum(sizes)
    if not starts or starts[0] < on_disk_before:
        return None
    runs = records.gather_all(starts, sizes)
    if runs is None:
        return None
    count = len(starts)
    return Got(GetStatus.FOUND, queue_offset + count, low, high, runs, count, size, False, starts[-1])


def _pull_stretches(
    records: Records,
    queue_offset: int,
    low: int,
    high: int,
    found: list[Stretch],
    last: int,
    on_disk_before: int,
) -> Got | None:
    """The same for those who ask for thousands, most of which lie side by side."""
    if not found or found[0].start < on_disk_before:
        return None
    runs = records.gather_stretches(found)
    if runs is None:
        return None
    count, size = sum(stretch.records for stretch in found), sum(map(len, runs))
    return Got(GetStatus.FOUND, queue_offset + count, low, high, runs, count, size, False, last)


def _columns(data: bytes) -> tuple[Sequence[int], Sequence[int]]:
    """Returns where the records of entries begin, and how long they are."""
    count = len(data) // ENTRY_SIZE
    if count > _FEW:
        entries = list(ENTRY.iter_unpack(data))
        return [entry[0] for entry in entries], [entry[1] for entry in entries]
    fields = _few(count).unpack(data)
    return fields[::2], fields[1::2]


@functools.cache
def _few(count: int) -> struct.Struct:
    """Returns what unpacks so many entries at once, without their tags codes."""
    return struct.Struct(">" + "qi8x" * count)


def _entries(queue: ConsumeQueue, queue_offset: int, count: int, step: int) -> Iterator[tuple[int, int, int]]:
    """Yields entries without making objects of them; they are read so many at a time."""
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
