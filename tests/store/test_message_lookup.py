"""MessageLookup: messages by id or key that are not in memory are read in threads."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator

import pytest

from kerolox.message.records.record import decode
from kerolox.store.errors import StoreError
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.log.test_cold_reads import ColdDisk
from tests.store.stores import config, draft, opened, put

# Ten keys to an index file.
SETTINGS = {"max_index_num": 11, "max_hash_slot_num": 4}


@pytest.fixture
def disk() -> Iterator[ColdDisk]:
    disk = ColdDisk()
    yield disk
    disk.permits.release(1000)


async def reopened(disk: SimulatedDisk, count: int = 30) -> Store:
    """Return a reopened store with messages of the key `k`, three files of the index full of it."""
    store = opened(disk, config(**SETTINGS))
    put(store, *[draft(b"%d" % number, KEYS="k") for number in range(count)])
    await store.close()
    return opened(disk, config(**SETTINGS))


async def test_old_messages_are_found_without_waiting_on_the_event_loop(disk: ColdDisk) -> None:
    store = await reopened(disk)
    reader, lookup = store.reader, store.lookup
    first, (last,) = reader.record_at(0), reader.get("orders", 0, 29).records
    expected = reader.query("orders", b"k", count_max=64), reader.find("orders", b"k", count_max=64)
    assert len(expected[0].records) == 30
    disk.is_slow = True
    disk.permits.release(1000)

    assert await lookup.record_at(0) == first
    assert await lookup.record_of_id(decode(first or b"").offset_id) == first
    assert await lookup.record_at(1) is None
    assert (
        await lookup.query("orders", b"k", count_max=64),
        await lookup.find("orders", b"k", count_max=64),
    ) == expected
    assert (await lookup.query("orders", b"k", count_max=1)).records == [last]

    assert disk.on_loop == 0
    disk.is_slow = False
    await store.close()


async def test_recent_messages_are_found_by_id_without_the_disk(disk: ColdDisk) -> None:
    store = opened(disk)
    put(store, draft(b"one"), draft(b"two"))
    reads = disk.counts["read"] + disk.counts["read_cached"]

    record = await store.lookup.record_at(0)

    assert record is not None
    assert disk.counts["read"] + disk.counts["read_cached"] == reads
    await store.close()


async def test_a_search_of_old_messages_ends_at_index_files_deleted_meanwhile(disk: ColdDisk) -> None:
    store = await reopened(disk)
    assert store.index is not None
    disk.is_slow = True
    searching = asyncio.create_task(store.lookup.query("orders", b"k", count_max=64))
    assert await asyncio.to_thread(disk.begun.acquire, timeout=20)
    # The search has found all offsets and waits for the first record.
    late = asyncio.create_task(store.lookup.query("orders", b"k", count_max=64))
    await asyncio.sleep(0)

    removal = store.index.detach_before(10**9)
    assert removal.run() == 2

    disk.permits.release(1000)
    assert len((await searching).records) == 30
    assert len((await late).records) <= 20
    disk.is_slow = False
    open_count = disk.open_count
    await store.close()
    assert (open_count > 0, disk.open_count) == (True, 0)


async def test_a_search_lets_other_tasks_run(disk: ColdDisk) -> None:
    disk.heal()
    store = opened(disk, config(max_index_num=20_000, max_hash_slot_num=1, mapped_file_size_commit_log=1 << 20))
    put(store, *[draft(b"", KEYS="k") for _ in range(10_000)])
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    assert (await store.lookup.query("orders", b"unknown")).records == []
    others.cancel()

    assert turns >= 4
    await store.close()


@pytest.mark.parametrize("inside", ["index", "commitlog"])
async def test_an_unreadable_file_is_a_store_error(disk: ColdDisk, inside: str) -> None:
    store = await reopened(disk)
    disk.fail("read", errno.EIO, inside=inside)

    with pytest.raises(StoreError, match="Input/output error"):
        await store.lookup.query("orders", b"k", count_max=64)

    disk.heal()
    await store.close()
