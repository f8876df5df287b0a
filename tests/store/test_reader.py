"""Single messages by where they lie, and what is known of their queues."""

from __future__ import annotations

import errno

import msgspec
import pytest

from kerolox.message.errors import IdError
from kerolox.message.ids import offset_id
from kerolox.store.configuration import FlushDiskType
from kerolox.store.errors import StoreError
from kerolox.store.reader import Boundary
from tests.store.disks import SimulatedDisk
from tests.store.stores import config, draft, draft_of_size, opened, put


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def test_offsets_move_as_messages_come_and_go(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, *[draft_of_size(1500) for _ in range(10)])
    reader = store.reader

    assert (reader.min_offset("t", 0), reader.max_offset("t", 0), reader.message_count("t", 0)) == (0, 10, 10)
    store.log.delete_before(9000)
    store.queues.find("t", 0).delete_before(store.log.first_offset)
    assert (reader.min_offset("t", 0), reader.max_offset("t", 0), reader.message_count("t", 0)) == (4, 10, 6)
    unknown = reader.min_offset("t", 1), reader.max_offset("t", 1), reader.message_count("t", 1)
    assert (unknown, store.append_offset("t", 1)) == ((-1, 0, 0), 0)


def test_what_is_appended_has_an_offset_before_it_can_be_read(disk: SimulatedDisk) -> None:
    store = opened(disk, config(FlushDiskType.SYNC_FLUSH))
    put(store, draft(), draft())

    assert (store.append_offset("orders", 0), store.reader.max_offset("orders", 0)) == (2, 0)


def test_a_record_is_found_by_offset_alone_by_its_id_and_by_its_queue_offset(disk: SimulatedDisk) -> None:
    store = opened(disk)
    made = [draft(b"%d" % number) for number in range(3)]
    places = put(store, *made)
    reader = store.reader

    assert [reader.record_at(place.physical_offset) for place in places] == [bytes(one.records) for one in made]
    assert reader.record_at(1) is reader.record_at(store.log.end_offset) is reader.record_at(-5) is None
    # Whose address it is does not matter.
    assert reader.record_of_id(offset_id(bytes(8), places[1].physical_offset)) == bytes(made[1].records)
    assert reader.record_of_id(offset_id(bytes(20), 5)) is None
    with pytest.raises(IdError, match="no message id"):
        reader.record_of_id("no id")
    offsets = [reader.physical_offset("orders", 0, offset) for offset in range(-1, 4)]
    assert offsets == [None, *(place.physical_offset for place in places), None]
    assert reader.physical_offset("unknown", 0, 0) is None


def test_a_message_is_on_disk_if_much_was_written_since(disk: SimulatedDisk) -> None:
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
