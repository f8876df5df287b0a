"""Reading single messages by physical offset, id or time, and the offsets of queues."""

from __future__ import annotations

import errno

import msgspec
import pytest

from kerolox.message.errors import IdError
from kerolox.message.ids import offset_id
from kerolox.message.records.summary import peek
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import StoreError
from kerolox.store.reader import Boundary
from tests.store.disks import SimulatedDisk
from tests.store.stores import StillClock, all_records, config, draft, draft_of_size, opened, put


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def test_min_and_max_offsets_follow_appends_and_deletions(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, *[draft_of_size(1500) for _ in range(10)])
    reader = store.reader

    assert (reader.min_offset("t", 0), reader.max_offset("t", 0), reader.message_count("t", 0)) == (0, 10, 10)
    store.log.delete_before(9000)
    store.queues.find("t", 0).delete_before(store.log.first_offset)
    assert (reader.min_offset("t", 0), reader.max_offset("t", 0), reader.message_count("t", 0)) == (4, 10, 6)
    unknown = reader.min_offset("t", 1), reader.max_offset("t", 1), reader.message_count("t", 1)
    assert (unknown, store.append_offset("t", 1)) == ((-1, 0, 0), 0)


def test_append_offset_is_ahead_of_max_offset_until_messages_are_durable(disk: SimulatedDisk) -> None:
    store = opened(disk, config(FlushDiskType.SYNC_FLUSH))
    put(store, draft(), draft())

    assert (store.append_offset("orders", 0), store.reader.max_offset("orders", 0)) == (2, 0)


def test_a_record_is_found_by_physical_offset_by_id_and_by_queue_offset(disk: SimulatedDisk) -> None:
    store = opened(disk)
    appends = [draft(b"%d" % number) for number in range(3)]
    positions = put(store, *appends)
    reader = store.reader

    found = [reader.record_at(position.physical_offset) for position in positions]
    assert found == [bytes(append.records) for append in appends]
    assert reader.record_at(1) is reader.record_at(store.log.end_offset) is reader.record_at(-5) is None
    # The address in the id is ignored.
    assert reader.record_of_id(offset_id(bytes(8), positions[1].physical_offset)) == bytes(appends[1].records)
    assert reader.record_of_id(offset_id(bytes(20), 5)) is None
    with pytest.raises(IdError, match="not a message id"):
        reader.record_of_id("no id")
    offsets = [reader.physical_offset("orders", 0, offset) for offset in range(-1, 4)]
    assert offsets == [None, *(position.physical_offset for position in positions), None]
    assert reader.physical_offset("unknown", 0, 0) is None


def test_a_message_counts_as_on_disk_after_many_later_writes(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, *[draft_of_size(1000) for _ in range(4)])
    store.reader.bounds = msgspec.structs.replace(store.reader.bounds, memory_size=2000)

    assert [store.reader.is_on_disk("t", 0, offset) for offset in range(5)] == [True, True, False, False, False]
    assert not store.reader.is_on_disk("unknown", 0, 0)


def test_a_queue_that_cannot_be_read_is_a_store_error(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, draft())
    for queue in store.queues:
        queue.flush()
    disk.fail("read", errno.EIO)

    with pytest.raises(StoreError, match="consume queue could not be read"):
        store.reader.physical_offset("orders", 0, 0)
    with pytest.raises(StoreError, match="consume queue could not be read"):
        store.reader.offset_at("orders", 0, 5, Boundary.UPPER)
    with pytest.raises(StoreError, match="consume queue could not be read"):
        store.reader.get("orders", 0, 0)


@pytest.mark.parametrize("ahead", [60, 3600, 10 * 365 * 86_400, -60, -3600, -10 * 365 * 86_400])
def test_offsets_by_time_are_boundaries_although_the_clock_jumped(ahead: int) -> None:
    clock = StillClock()
    store = opened(SimulatedDisk(), clock=clock)
    for number in range(30):
        if number in (10, 20):
            clock.step(ahead if number == 10 else -ahead)
        put(store, draft(b"%d" % number))
        clock.move(1)
    times = [peek(record).store_timestamp for record in all_records(store)]

    for time in times:
        lower = store.reader.offset_at("orders", 0, time, Boundary.LOWER)
        # The message at the boundary is not older than the time, and the one before it is.
        assert lower == 30 or times[lower] >= time
        assert lower == 0 or times[lower - 1] < time
    if ahead > 0:
        # A time after the jump skips no message that was stored from then on.
        assert all(store.reader.offset_at("orders", 0, times[at], Boundary.LOWER) <= at for at in range(20, 30))
