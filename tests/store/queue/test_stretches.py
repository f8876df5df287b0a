"""Where many records lie, found without looking at each, and what a pull in bulk makes of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.runtime.files import RealDisk
from kerolox.store.log.records import Stretch
from kerolox.store.log.segments import Brought, NotInMemory
from kerolox.store.queue.consume_queue import ENTRY
from kerolox.store.queue.stretches import stretches
from kerolox.store.reader import Got
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, batch, config, opened, put

SETTINGS = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20 * 3000,
    "bulk_pull_bytes_max": 1 << 20,
}


def entries(places: list[tuple[int, int]]) -> bytes:
    return b"".join(ENTRY.pack(start, size, 0) for start, size in places)


def laid_out(groups: list[tuple[int, list[int]]]) -> list[tuple[int, int]]:
    """Returns places of records of these sizes, after a gap before each group."""
    places, at = [], 0
    for gap, sizes in groups:
        at += gap
        for size in sizes:
            places.append((at, size))
            at += size
    return places


@given(
    groups=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(91, 93), min_size=40, max_size=200)), min_size=1, max_size=5
    ),
    bytes_max=st.integers(0, 100_000),
)
def test_stretches_are_the_places_of_the_entries_that_have_room(
    groups: list[tuple[int, list[int]]], bytes_max: int
) -> None:
    places = laid_out(groups)
    taken, size = [], 0
    for start, length in places:
        size += length
        if size > bytes_max:
            break
        taken.append((start, length))

    found = stretches(entries(places), bytes_max)

    assert found is not None
    assert sum(stretch.records for stretch in found[0]) == len(taken)
    assert all(before.end < after.start for before, after in zip(found[0], found[0][1:], strict=False))
    covered = {at for stretch in found[0] for at in range(stretch.start, stretch.end)}
    assert covered == {at for start, length in taken for at in range(start, start + length)}
    assert not taken or found[1] == taken[-1][0]


def test_a_filler_and_what_is_not_in_order_end_the_last_stretch() -> None:
    places = [(100 * number, 100) for number in range(70)]

    assert stretches(entries([*places, (0, 0x7FFFFFFF), (8000, 100)]), 1 << 20) == ([Stretch(0, 7000, 70)], 6900)
    assert stretches(entries([*places, (3000, 100)]), 1 << 20) == ([Stretch(0, 7000, 70)], 6900)
    assert stretches(entries([(0, 0x7FFFFFFF), *places]), 1 << 20) == ([], 0)


def test_where_hardly_any_lie_side_by_side_there_are_none() -> None:
    assert stretches(entries([(200 * number, 100) for number in range(70)]), 1 << 20) is None


def filled(store: Store) -> Store:
    """Has stretches of two queues, of even and of uneven records, in two files; and records that alternate."""
    for number in range(12):
        sizes = [700] * 150 if number % 3 else [600 + at % 7 for at in range(150)]
        put(store, batch([b"x" * size for size in sizes], "t", number % 2))
    for number in range(200):
        put(store, batch([b"y" * 50], "u", number % 2))
    return store


def bulk(store: Store, topic: str, offset: int, bytes_max: int, brought: Brought | None = None) -> Got:
    bounds = store.reader.bulk_bounds
    return store.reader.get(topic, 0, offset, count_max=4096, bytes_max=bytes_max, bounds=bounds, brought=brought)


@pytest.mark.parametrize("mapped_bytes_max", [1 << 30, 0])
async def test_in_bulk_the_same_records_come_as_one_by_one(tmp_path: Path, mapped_bytes_max: int) -> None:
    root = tmp_path / "store"
    store = filled(opened(RealDisk(), config(**SETTINGS, mapped_bytes_max=mapped_bytes_max, store_path_root_dir=root)))
    oracle = filled(opened(SimulatedDisk(), config(**SETTINGS)))
    for topic in "tu":
        every = [oracle.reader.get(topic, 0, at, count_max=1).records[0] for at in range({"t": 900, "u": 100}[topic])]
        for bytes_max in (1 << 20, 300_000, 30_000):
            found: list[bytes] = []
            while len(found) < len(every):
                try:
                    got = bulk(store, topic, len(found), bytes_max, {})
                except NotInMemory as missing:
                    offset, bound = len(found), bytes_max
                    got = await store.cold.read(lambda brought: bulk(store, topic, offset, bound, brought), missing)  # noqa: B023
                assert got == msgspec.structs.replace(got, count=len(got.records), size=sum(map(len, got.records)))
                assert got.next_offset == len(found) + got.count
                assert got.size <= bytes_max
                found += got.records
            assert found == every
    await store.close()


@pytest.mark.parametrize("sizes", [[700] * 300, [600 + at % 7 for at in range(300)]])
async def test_a_damaged_head_in_the_midst_of_old_records_is_left_out(sizes: list[int]) -> None:
    disk = SimulatedDisk()
    store = opened(disk, config(**SETTINGS))
    put(store, batch([b"x" * size for size in sizes], "t"))
    await store.close()
    store = opened(disk, config(**SETTINGS))
    records = bulk(store, "t", 0, 1 << 20).records

    disk.overwrite(LOG / f"{0:020}", sum(map(len, records[:100])) + 4, bytes(4))

    assert len(records) == 300
    assert bulk(store, "t", 0, 1 << 20).records == records[:100] + records[101:]
    await store.close()


async def test_where_a_file_of_old_records_ends_too_soon_those_before_are_found() -> None:
    disk = SimulatedDisk()
    store = opened(disk, config(**SETTINGS))
    put(store, batch([b"x" * 700] * 300, "t"))
    await store.close()
    store = opened(disk, config(**SETTINGS))
    records = bulk(store, "t", 0, 1 << 20).records

    disk.open(LOG / f"{0:020}").truncate(sum(map(len, records[:100])) + 50)

    assert bulk(store, "t", 0, 1 << 20).records == records[:100]
    await store.close()
