"""Records: reading several records by physical offset and size."""

from __future__ import annotations

import asyncio
import errno
import struct
from pathlib import Path

import pytest

from kerolox.message.message import Message
from kerolox.message.records.record import MAGIC_V1, MAGIC_V2, encode, size_and_magic
from kerolox.runtime.files import RealDisk
from kerolox.store.log.commit_log import Append
from kerolox.store.log.records import Gathered, Records, split_records
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import config, draft, draft_of_size, new_store, opened, put


def filled(sizes: list[int], segment_size: int = 4096) -> tuple[Store, list[tuple[int, int]]]:
    """Return a store with records of these sizes, and offset and size of each; its files cannot be mapped."""
    disk = SimulatedDisk()
    disk.fail("view", errno.ENOMEM)
    store = opened(disk, config(mapped_file_size_commit_log=segment_size))
    locations = [put(store, draft_of_size(size))[0].physical_offset for size in sizes]
    return store, list(zip(locations, sizes, strict=True))


def gathered(store: Store, locations: list[tuple[int, int]]) -> tuple[Gathered, int]:
    """Return what was found, and the number of reads."""
    reads = 0
    read = store.log.read

    def counted(offset: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        return read(offset, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.log, "read", counted)
        found = Gathered([])
        Records(store.log).gather(found, locations)
    return found, reads


def test_records_with_small_gaps_between_them_share_one_read() -> None:
    store, locations = filled([500, 4096, 500, 4097, 500], 64 * 1024)

    found, reads = gathered(store, locations[::2])

    assert (reads, found.count, found.size) == (2, 3, 1500)
    assert [bytes(run) for run in found.runs] == [store.reader.record_at(*location) for location in locations[::2]]


def test_records_of_two_files_are_read_separately() -> None:
    store, locations = filled([2000, 2000, 2000])

    found, reads = gathered(store, locations)

    # Between the second and the third is the blank at the end of a file.
    assert locations[2][0] == 4096
    assert (reads, [len(run) for run in found.runs]) == (2, [4000, 2000])


def test_missing_records_are_left_out_and_noted() -> None:
    store, locations = filled([100, 100, 100])

    found, _ = gathered(store, [locations[0], (100, 99), (150, 20), locations[2], (300, 100), (10**9, 100), (-7, 100)])

    assert (found.count, found.missing_offset, found.rejected_offset) == (2, -7, -1)
    assert [record for run in found.runs for record in split_records(run)] == [
        store.reader.record_at(*locations[0]),
        store.reader.record_at(*locations[2]),
    ]


def test_records_of_long_topics_are_found_alone_and_among_others() -> None:
    store = opened(SimulatedDisk())
    made = [draft(topic="%RETRY%" + "g" * 200), draft()]
    long, short = (
        (location.physical_offset, len(one.records)) for location, one in zip(put(store, *made), made, strict=True)
    )

    assert size_and_magic(made[0].records)[1] == MAGIC_V2
    assert gathered(store, [long])[0].count == 1
    assert gathered(store, [long, short])[0].count == 2
    assert Records(store.log).store_time(long[0]) == Records(store.log).store_time(short[0])


def head_at(offset: int, size: int, magic: int = MAGIC_V1) -> bytes:
    """Return the beginning of a record with this physical offset."""
    return struct.pack(">II20xq", size, magic, offset)


@pytest.mark.parametrize("what", ["no head", "wrong magic", "wrong offset", "size too large", "size too small"])
def test_a_lookup_at_an_arbitrary_offset_reads_only_a_head(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    size = 32 * 1024 * 1024
    store = opened(SimulatedDisk(), config(mapped_file_size_commit_log=64 * 1024 * 1024, mapped_bytes_max=0))
    at = 91 + 6 - 9
    head = {
        "no head": size.to_bytes(4) + bytes(40),
        "wrong magic": head_at(at, size - 1, 7),
        "wrong offset": head_at(at + 1, size - 1),
        "size too large": head_at(at, size),
        "size too small": head_at(at, 3),
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


def test_a_lookup_finds_records_up_to_the_configured_size() -> None:
    size = 17 * 1024 * 1024
    small, large = (
        opened(SimulatedDisk(), config(mapped_file_size_commit_log=64 * 1024 * 1024, max_message_size=size_max))
        for size_max in (4 * 1024 * 1024, size)
    )
    for store in (small, large):
        (location,) = put(store, Append("t", 0, encode(Message("t", bytes(size)), size)))

        found = store.reader.record_at(location.physical_offset)

        assert (found is not None) is (store is large)
        # With a size from a queue entry there is no such limit.
        assert store.reader.record_at(location.physical_offset, location.end_offset) is not None
        assert store.reader.get("t", 0, 0).count == 1


def test_on_a_real_disk_records_are_views_of_the_mapped_files(tmp_path: Path) -> None:
    store = new_store(RealDisk(), config(mapped_file_size_commit_log=4096, store_path_root_dir=tmp_path))
    store.recover()
    sizes = [500, 700, 300, 2000, 2000, 600]
    locations = [(put(store, draft_of_size(size))[0].physical_offset, size) for size in sizes]
    found = [store.reader.record_at(*location) for location in locations]
    expected = [record for record in found if record is not None]
    assert len(expected) == len(locations)

    whole, reads = gathered(store, [*locations[:2], *locations[3:]])
    assert (reads, whole.count, whole.size) == (0, 5, sum(sizes) - 300)
    # Two adjacent records, one after a gap, and those of the next file.
    assert [len(run) for run in whole.runs] == [1200, 2000, 2600]
    assert b"".join(whole.runs) == b"".join([*expected[:2], *expected[3:]])

    partly, _ = gathered(store, [locations[0], (100, 50), locations[3], (10**9, 100)])
    assert b"".join(partly.runs) == expected[0] + expected[3]
    assert partly.missing_offset == 10**9
    asyncio.run(store.close())
    # The views stay valid.
    assert b"".join(whole.runs) == b"".join([*expected[:2], *expected[3:]])
