"""Contiguous ranges of records, and bulk pulls that use them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.runtime.files import RealDisk
from kerolox.store.log.records import Ranges
from kerolox.store.log.segments import NotInMemory
from kerolox.store.queue.consume_queue import ENTRY
from kerolox.store.queue.contiguous import contiguous_ranges
from kerolox.store.reader import GetResult
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, batch, config, opened, put

SETTINGS = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20 * 3000,
    "bulk_pull_bytes_max": 1 << 20,
}


def entries(locations: list[tuple[int, int]]) -> bytes:
    return b"".join(ENTRY.pack(start, size, 0) for start, size in locations)


def laid_out(groups: list[tuple[int, list[int]]]) -> list[tuple[int, int]]:
    """Return offset and size of records of these sizes, with a gap before each group."""
    locations, at = [], 0
    for gap, sizes in groups:
        at += gap
        for size in sizes:
            locations.append((at, size))
            at += size
    return locations


@given(
    groups=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(91, 93), min_size=1, max_size=200)), min_size=1, max_size=5
    ),
    bytes_max=st.integers(0, 100_000),
)
def test_ranges_cover_exactly_the_records_that_fit(groups: list[tuple[int, list[int]]], bytes_max: int) -> None:
    locations = laid_out(groups)
    fitting, size = [], 0
    for start, length in locations:
        size += length
        if size > bytes_max:
            break
        fitting.append((start, length))

    found = contiguous_ranges(entries(locations), bytes_max)

    assert (found.count, found.size) == (len(fitting), sum(length for _, length in fitting))
    assert all(before < after for before, after in zip(found.ends, found.starts[1:], strict=False))
    covered = {at for start, end in zip(found.starts, found.ends, strict=True) for at in range(start, end)}
    assert covered == {at for start, length in fitting for at in range(start, start + length)}
    assert not fitting or found.last == fitting[-1][0]


def test_a_filler_or_an_entry_out_of_order_ends_the_last_range() -> None:
    locations = [(100 * number, 100) for number in range(70)]

    expected = Ranges([0], [7000], 70, 7000, 6900)
    assert contiguous_ranges(entries([*locations, (0, 0x7FFFFFFF), (8000, 100)]), 1 << 20) == expected
    assert contiguous_ranges(entries([*locations, (3000, 100)]), 1 << 20) == expected
    assert contiguous_ranges(entries([(0, 0x7FFFFFFF), *locations]), 1 << 20).count == 0
    assert contiguous_ranges(b"", 1 << 20).count == 0


def test_records_with_gaps_between_them_are_ranges_of_their_own() -> None:
    starts = [200 * number for number in range(70)]

    found = contiguous_ranges(entries([(start, 100) for start in starts]), 1 << 20)

    assert found == Ranges(starts, [start + 100 for start in starts], 70, 7000, starts[-1])


def filled(store: Store) -> Store:
    """Add adjacent records of two queues, of equal and of different sizes, in two files; and alternating records."""
    for number in range(12):
        sizes = [700] * 150 if number % 3 else [600 + at % 7 for at in range(150)]
        put(store, batch([b"x" * size for size in sizes], "t", number % 2))
    for number in range(200):
        put(store, batch([b"y" * 50], "u", number % 2))
    return store


def bulk(store: Store, topic: str, offset: int, bytes_max: int) -> GetResult:
    bounds = store.reader.bulk_bounds
    return store.reader.get(topic, 0, offset, count_max=4096, bytes_max=bytes_max, bounds=bounds)


@pytest.mark.parametrize("mapped_bytes_max", [1 << 30, 0])
async def test_a_bulk_pull_returns_the_same_records_as_single_pulls(tmp_path: Path, mapped_bytes_max: int) -> None:
    root = tmp_path / "store"
    store = filled(opened(RealDisk(), config(**SETTINGS, mapped_bytes_max=mapped_bytes_max, store_path_root_dir=root)))
    oracle = filled(opened(SimulatedDisk(), config(**SETTINGS)))
    for topic in "tu":
        every = [oracle.reader.get(topic, 0, at, count_max=1).records[0] for at in range({"t": 900, "u": 100}[topic])]
        for bytes_max in (1 << 20, 300_000, 30_000):
            found: list[bytes] = []
            while len(found) < len(every):
                got = await store.cold_reads.read(partial(bulk, store, topic, len(found), bytes_max))
                assert got == msgspec.structs.replace(got, count=len(got.records), size=sum(map(len, got.records)))
                assert got.next_offset == len(found) + got.count
                assert got.size <= bytes_max
                found += got.records
            assert found == every
    await store.close()


@pytest.mark.parametrize("sizes", [[700] * 300, [600 + at % 7 for at in range(300)]])
async def test_a_record_with_a_damaged_head_is_left_out_of_a_bulk_pull(sizes: list[int]) -> None:
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


async def test_records_before_the_end_of_a_truncated_file_are_found() -> None:
    disk = SimulatedDisk()
    store = opened(disk, config(**SETTINGS))
    put(store, batch([b"x" * 700] * 300, "t"))
    await store.close()
    store = opened(disk, config(**SETTINGS))
    records = bulk(store, "t", 0, 1 << 20).records

    disk.open(LOG / f"{0:020}").truncate(sum(map(len, records[:100])) + 50)

    assert bulk(store, "t", 0, 1 << 20).records == records[:100]
    await store.close()


async def test_ranges_far_apart_are_fetched_one_by_one(tmp_path: Path) -> None:
    settings = config(**SETTINGS, mapped_bytes_max=0, store_path_root_dir=tmp_path / "store")
    store = opened(RealDisk(), settings)
    for number in range(7):
        put(store, batch([b"x" * 900] * 100, "t", number % 3))
    expected = [store.reader.get("t", 0, at, count_max=1).records[0] for at in range(300)]
    get = partial(bulk, store, "t", 0, 1 << 20)

    with pytest.raises(NotInMemory) as missing:
        store.cold_reads.in_memory(get)
    got = await store.cold_reads.read(get, missing.value)

    assert [span.is_view for span in missing.value.spans] == [True] * len(missing.value.spans)
    assert len(missing.value.spans) == len(got.runs) == 3
    assert got.records == expected
    await store.close()
