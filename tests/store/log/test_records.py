"""Records by where they lie, several at a time."""

from __future__ import annotations

import asyncio
import errno
import struct
from pathlib import Path

import pytest

from kerolox.message.message import Message
from kerolox.message.record import MAGIC_V1, MAGIC_V2, encode, size_and_magic
from kerolox.runtime.files import RealDisk
from kerolox.store.log.commit_log import Draft
from kerolox.store.log.records import Gathered, Records, cut_records
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import config, draft, draft_of_size, new_store, opened, put


def filled(sizes: list[int], segment_size: int = 4096) -> tuple[Store, list[tuple[int, int]]]:
    """A store with records of these sizes, each written by itself, and where they lie; its files cannot be mapped."""
    disk = SimulatedDisk()
    disk.fail("view", errno.ENOMEM)
    store = opened(disk, config(mapped_file_size_commit_log=segment_size))
    places = [put(store, draft_of_size(size))[0].physical_offset for size in sizes]
    return store, list(zip(places, sizes, strict=True))


def gathered(store: Store, places: list[tuple[int, int]]) -> tuple[Gathered, int]:
    """What was found, and with how many reads."""
    reads = 0
    read = store.log.read

    def counted(offset: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        return read(offset, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.log, "read", counted)
        found = Gathered([])
        Records(store.log).gather(found, places)
    return found, reads


def test_one_read_brings_records_with_small_gaps_between_them_but_not_with_large_ones() -> None:
    store, places = filled([500, 4096, 500, 4097, 500], 64 * 1024)

    found, reads = gathered(store, places[::2])

    assert (reads, found.count, found.size) == (2, 3, 1500)
    assert [bytes(run) for run in found.runs] == [store.reader.record_at(*place) for place in places[::2]]


def test_records_of_two_files_are_read_apart() -> None:
    store, places = filled([2000, 2000, 2000])

    found, reads = gathered(store, places)

    # Between the second and the third lies the blank at the end of a file.
    assert places[2][0] == 4096
    assert (reads, [len(run) for run in found.runs]) == (2, [4000, 2000])


def test_what_is_not_there_is_left_out_and_noted() -> None:
    store, places = filled([100, 100, 100])

    found, _ = gathered(store, [places[0], (100, 99), (150, 20), places[2], (300, 100), (10**9, 100), (-7, 100)])

    assert (found.count, found.missing_offset, found.refused_offset) == (2, -7, -1)
    assert [record for run in found.runs for record in cut_records(run)] == [
        store.reader.record_at(*places[0]),
        store.reader.record_at(*places[2]),
    ]


def test_records_of_long_topics_are_found_alone_and_among_others() -> None:
    store = opened(SimulatedDisk())
    made = [draft(topic="%RETRY%" + "g" * 200), draft()]
    long, short = (
        (place.physical_offset, len(one.records)) for place, one in zip(put(store, *made), made, strict=True)
    )

    assert size_and_magic(made[0].records)[1] == MAGIC_V2
    assert gathered(store, [long])[0].count == 1
    assert gathered(store, [long, short])[0].count == 2
    assert Records(store.log).store_time(long[0]) == Records(store.log).store_time(short[0])


def head_at(offset: int, size: int, magic: int = MAGIC_V1) -> bytes:
    """What a record at this offset begins with."""
    return struct.pack(">II20xq", size, magic, offset)


@pytest.mark.parametrize("what", ["nothing", "another magic", "another place", "a size that none has", "no size"])
def test_where_no_record_begins_a_stranger_makes_nobody_read_much(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    size = 32 * 1024 * 1024
    store = opened(SimulatedDisk(), config(mapped_file_size_commit_log=64 * 1024 * 1024))
    at = 91 + 6 - 9
    head = {
        "nothing": size.to_bytes(4) + bytes(40),
        "another magic": head_at(at, size - 1, 7),
        "another place": head_at(at + 1, size - 1),
        "a size that none has": head_at(at, size),
        "no size": head_at(at, 3),
    }[what]
    put(store, draft(head + bytes(100)))
    put(store, draft())
    assert store.log.read(at, len(head)) == head
    read, sizes = store.log.read, list[int]()

    def noted(offset: int, size: int) -> bytes:
        sizes.append(size)
        return read(offset, size)

    monkeypatch.setattr(store.log, "read", noted)

    assert store.reader.record_at(at) is None
    assert max(sizes) < 100


def test_a_record_is_looked_up_if_it_is_as_large_as_the_configuration_allows() -> None:
    size = 17 * 1024 * 1024
    small, large = (
        opened(SimulatedDisk(), config(mapped_file_size_commit_log=64 * 1024 * 1024, max_message_size=size_max))
        for size_max in (4 * 1024 * 1024, size)
    )
    for store in (small, large):
        (place,) = put(store, Draft("t", 0, encode(Message("t", bytes(size)), size)))

        found = store.reader.record_at(place.physical_offset)

        assert (found is not None) is (store is large)
        # Whoever knows the size from a queue is believed.
        assert store.reader.record_at(place.physical_offset, place.end_offset) is not None
        assert store.reader.get("t", 0, 0).count == 1


def test_on_a_real_disk_records_are_shown_where_they_lie(tmp_path: Path) -> None:
    store = new_store(RealDisk(), config(mapped_file_size_commit_log=4096, store_path_root_dir=tmp_path))
    store.recover()
    sizes = [500, 700, 300, 2000, 2000, 600]
    places = [(put(store, draft_of_size(size))[0].physical_offset, size) for size in sizes]
    expected = [store.reader.record_at(*place) for place in places]

    whole, reads = gathered(store, [*places[:2], *places[3:]])
    assert (reads, whole.count, whole.size) == (0, 5, sum(sizes) - 300)
    # Two side by side, one after a gap, and those of the next file.
    assert [len(run) for run in whole.runs] == [1200, 2000, 2600]
    assert b"".join(whole.runs) == b"".join([*expected[:2], *expected[3:]])

    partly, _ = gathered(store, [places[0], (100, 50), places[3], (10**9, 100)])
    assert b"".join(partly.runs) == expected[0] + expected[3]
    assert partly.missing_offset == 10**9
    asyncio.run(store.close())
    # What was shown is still there.
    assert b"".join(whole.runs) == b"".join([*expected[:2], *expected[3:]])
