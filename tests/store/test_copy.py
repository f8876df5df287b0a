"""Copying the log of one store to another, byte for byte."""

import asyncio
import contextlib
import errno
import logging
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.message import sysflag
from kerolox.message.records.record import BLANK_MAGIC, size_and_magic
from kerolox.runtime.files import Disk, RealDisk
from kerolox.store.config import FlushDiskType, StoreConfig
from kerolox.store.errors import NotCopied, StoreError, StoreFull, StoreReadOnly
from kerolox.store.queue.consume_queue import Entry
from kerolox.store.store import Store, StoreHooks
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, SEGMENT_SIZE, all_records, batch, config, draft, draft_of_size, new_store, put

SYNC = FlushDiskType.SYNC_FLUSH


@contextlib.asynccontextmanager
async def running(disk: Disk, settings: StoreConfig | None = None, *, is_copy: bool = False) -> AsyncIterator[Store]:
    store = new_store(disk, settings, hooks=StoreHooks(is_copy=is_copy))
    await store.open()
    task = asyncio.create_task(store.run())
    try:
        yield store
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()


def fill(store: Store, count: int = 60, seed: int = 1) -> None:
    """Append messages of many kinds to several queues, over several files."""
    chance = random.Random(seed)
    for number in range(count):
        body = chance.randbytes(chance.randrange(300))
        topic, queue_id = chance.choice(["orders", "refunds"]), chance.randrange(3)
        kind = chance.choice([0, 0, 0, sysflag.PREPARED, sysflag.COMMIT, sysflag.ROLLBACK])
        if number % 7:
            put(store, draft(body, topic, queue_id, kind, KEYS=f"key{number}", TAGS="red", UNIQ_KEY=f"id{number}"))
        else:
            put(store, batch([body, b"b", b"c"], topic, queue_id))


async def copy(master: Store, slave: Store, size: int = 100, end: int | None = None) -> None:
    """Copy what the slave lacks in pieces of `size` bytes."""
    await slave.begin_copy()
    offset = master.log.first_offset if slave.is_empty else slave.copy_offset
    end = master.log.end_offset if end is None else end
    while offset < end:
        data = await master.read_log(offset, min(size, end - offset))
        await slave.append_copy(offset, data)
        offset += len(data)


def log_bytes(store: Store) -> bytes:
    log = store.log
    parts, offset = [], log.first_offset
    while offset < log.end_offset:
        parts.append(log.read(offset, log.end_offset - offset))
        offset += len(parts[-1])
    return b"".join(parts)


def derived(store: Store) -> tuple[object, ...]:
    """Return everything that was dispatched: queue entries, messages by key, next queue offsets."""
    queues = {
        key: [queue.entry(offset) for offset in range(queue.min_offset, queue.max_offset)]
        for key, queue in store.queues.items()
    }
    topics = "orders", "refunds"
    found = [store.reader.find(topic, b"key%d" % number) for topic in topics for number in range(60)]
    offsets = {key: store.append_offset(*key) for key in queues}
    return queues, found, offsets


@pytest.mark.parametrize("flush", FlushDiskType)
@pytest.mark.parametrize("size", [1, 7, 100, 5000])
async def test_a_copy_has_the_bytes_queues_and_index_of_its_master(flush: FlushDiskType, size: int) -> None:
    async with running(SimulatedDisk()) as master, running(SimulatedDisk(), config(flush)) as slave:
        fill(master)
        assert master.log.end_offset > 3 * SEGMENT_SIZE

        await copy(master, slave, size)
        await slave.flusher.flush()

        assert log_bytes(slave) == log_bytes(master)
        assert derived(slave) == derived(master)
        assert slave.held_offset == master.log.end_offset


async def test_a_copied_end_of_a_file_has_the_bytes_of_the_master_in_it(tmp_path: Path) -> None:
    settings = config(store_path_root_dir=tmp_path / "slave")
    async with running(SimulatedDisk()) as master, running(RealDisk(), settings) as slave:
        put(master, draft_of_size(SEGMENT_SIZE - 1000), draft_of_size(2000, "orders"))
        # Java's files may hold anything after the head of the blank record.
        rest = b"old bytes" * 100
        data = master.log.read(0, SEGMENT_SIZE)
        assert size_and_magic(data, SEGMENT_SIZE - 1000) == (1000, BLANK_MAGIC)
        await slave.begin_copy()
        await slave.append_copy(0, data[: SEGMENT_SIZE - 992] + rest + bytes(92))

        file = (tmp_path / "slave" / "commitlog" / "00000000000000000000").read_bytes()
        assert file[SEGMENT_SIZE - 992 :] == rest + bytes(92)
        assert slave.copy_offset == SEGMENT_SIZE
        await slave.append_copy(SEGMENT_SIZE, master.log.read(SEGMENT_SIZE, SEGMENT_SIZE))
        assert len(all_records(slave)) == 1


async def test_a_copy_may_begin_at_a_later_file() -> None:
    disk = SimulatedDisk()
    async with running(SimulatedDisk()) as master, running(disk) as slave:
        fill(master)
        begin = 2 * SEGMENT_SIZE
        master.log.delete_before(begin)

        await copy(master, slave)

        assert (slave.log.first_offset, slave.log.end_offset) == (begin, master.log.end_offset)
        assert log_bytes(slave) == log_bytes(master)
        assert {key: queue.max_offset for key, queue in slave.queues.items()} == {
            key: queue.max_offset
            for key, queue in master.queues.items()
            if (last := queue.entry(queue.max_offset - 1)) is not None and last.physical_offset >= begin
        }
    assert disk.names(LOG)[0] == f"{begin:020d}"
    async with running(disk) as slave:
        assert log_bytes(slave) == log_bytes(master)


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_a_copy_that_stops_within_a_record_continues_after_the_last_whole_one(flush: FlushDiskType) -> None:
    async with running(SimulatedDisk()) as master:
        fill(master)
        ends = [entry.physical_offset + entry.size for entry in _entries(master)]
        for stop in (ends[3] - 1, ends[4] + 1, ends[10] + 50, SEGMENT_SIZE - 3, SEGMENT_SIZE + 9):
            disk = SimulatedDisk()
            slave = new_store(disk, config(flush))
            await slave.open()
            await copy(master, slave, 64, stop)
            assert slave.copy_offset == stop
            assert slave.log.end_offset <= stop
            async with running(disk.after_kill(), config(flush)) as slave:
                assert slave.log.end_offset <= stop
                assert log_bytes(slave) == log_bytes(master)[: slave.log.end_offset]
                await copy(master, slave)
                assert log_bytes(slave) == log_bytes(master)
                await slave.flusher.flush()
                assert derived(slave) == derived(master)


def _entries(store: Store) -> list[Entry]:
    found = [
        entry
        for _, queue in store.queues.items()
        for offset in range(queue.max_offset)
        if (entry := queue.entry(offset)) is not None
    ]
    return sorted(found, key=lambda entry: entry.physical_offset)


@pytest.mark.parametrize("pieces", range(0, 60, 7))
async def test_a_power_cut_takes_nothing_back_that_a_copy_has_reported(pieces: int) -> None:
    async with running(SimulatedDisk()) as master:
        fill(master, 20)
        disk = SimulatedDisk()
        async with running(disk, config(SYNC)) as slave:
            await slave.begin_copy()
            for _ in range(pieces):
                await slave.append_copy(slave.copy_offset, await master.read_log(slave.copy_offset, 77))
            reported = slave.held_offset
            cut = list(disk.after_power_cut(seed=pieces))
        for after in cut:
            async with running(after, config(SYNC), is_copy=True) as slave:
                assert reported <= slave.log.end_offset <= pieces * 77
                assert log_bytes(slave) == log_bytes(master)[: slave.log.end_offset]
                await copy(master, slave)
                await slave.flusher.flush()
                assert log_bytes(slave) == log_bytes(master)
                assert derived(slave) == derived(master)


async def test_bytes_that_do_not_continue_the_copy_are_refused() -> None:
    async with running(SimulatedDisk()) as master, running(SimulatedDisk()) as slave:
        put(master, draft(), draft())
        data = log_bytes(master)
        await copy(master, slave, end=50)

        for offset in (0, 49, 51):
            with pytest.raises(NotCopied, match=f"continues at {offset}, this copy ends at 50"):
                await slave.append_copy(offset, data[offset:])
        await slave.append_copy(50, data[50:])
        assert log_bytes(slave) == data


async def test_damaged_bytes_are_refused_and_nothing_of_them_is_stored() -> None:
    async with running(SimulatedDisk()) as master, running(SimulatedDisk()) as slave:
        put(master, draft(b"one"), draft(b"two"))
        data = log_bytes(master)
        size = len(data) // 2
        flips = {
            size + 2: "not those of a record",
            size + 5: "not those of a record",
            size + 35: "physical offset",
            data.index(b"two"): "CRC",
        }
        for at, complaint in flips.items():
            await slave.begin_copy()
            broken = bytearray(data)
            broken[at] ^= 0x55
            with pytest.raises(NotCopied, match=complaint):
                await slave.append_copy(0, bytes(broken))
            assert slave.log.end_offset == 0


async def test_a_master_with_other_file_sizes_is_named_as_the_reason() -> None:
    other = config(mapped_file_size_commit_log=2 * SEGMENT_SIZE)
    async with running(SimulatedDisk(), other) as master, running(SimulatedDisk()) as slave:
        fill(master)
        with pytest.raises(NotCopied, match=r"not those of a record|mappedFileSizeCommitLog"):
            await copy(master, slave)
    async with running(SimulatedDisk()) as master, running(SimulatedDisk(), other) as slave:
        fill(master)
        with pytest.raises(NotCopied, match="mappedFileSizeCommitLog"):
            await copy(master, slave)
        master.log.delete_before(SEGMENT_SIZE)
    async with running(SimulatedDisk(), other) as slave:
        await slave.begin_copy()
        with pytest.raises(NotCopied, match="mappedFileSizeCommitLog"):
            await slave.append_copy(SEGMENT_SIZE, b"x")


async def test_a_copy_takes_no_messages_until_it_has_ended() -> None:
    async with running(SimulatedDisk()) as master, running(SimulatedDisk(), config(SYNC)) as slave:
        put(master, draft(b"a"), draft(b"b", queue_id=1), draft(b"c"))
        await copy(master, slave, end=master.log.end_offset - 1)

        with pytest.raises(StoreReadOnly, match="send to the master"):
            await slave.put(draft())
        await slave.end_copy()
        with pytest.raises(StoreReadOnly):
            await slave.append_copy(slave.copy_offset, b"x")

        appended, _ = await slave.put(draft(b"d"))
        assert (appended.queue_offset, len(all_records(slave))) == (1, 2)


async def test_a_full_disk_stops_a_copy_until_there_is_room() -> None:
    disk = SimulatedDisk()
    async with running(SimulatedDisk()) as master, running(disk) as slave:
        fill(master)
        await copy(master, slave, end=1000)
        disk.fail("write", errno.ENOSPC, inside="commitlog")
        with pytest.raises(StoreFull):
            await copy(master, slave)
        disk.heal()
        await copy(master, slave)
        assert log_bytes(slave) == log_bytes(master)


async def test_the_log_is_read_up_to_its_end_and_not_before_its_beginning() -> None:
    async with running(SimulatedDisk()) as master:
        fill(master)
        end = master.log.end_offset
        assert await master.read_log(end, 100) == b""
        assert await master.read_log(end - 5, 100) == log_bytes(master)[-5:]
        assert len(await master.read_log(SEGMENT_SIZE - 5, 100)) == 5
        master.log.delete_before(SEGMENT_SIZE)
        for offset in (SEGMENT_SIZE - 1, end + 1):
            with pytest.raises(StoreError, match="the log holds"):
                await master.read_log(offset, 100)


async def test_growth_wakes_all_waiters_and_none_before() -> None:
    async with running(SimulatedDisk()) as store:
        waiting = [asyncio.create_task(store.growth.wait(0)) for _ in range(2)]
        later = asyncio.create_task(store.growth.wait(10_000))
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)

        await store.put(draft())
        await asyncio.gather(*waiting)

        assert not later.done()
        later.cancel()
        await asyncio.gather(later, return_exceptions=True)
        assert not store.growth.waiters
        await store.growth.wait(0)


async def test_consumers_of_a_copy_are_woken(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with running(SimulatedDisk()) as master, running(SimulatedDisk()) as slave:
            waiting = asyncio.create_task(slave.message_waiters.wait("orders", 0, seconds=60))
            await asyncio.sleep(0)
            put(master, draft())
            await copy(master, slave)
            assert await waiting
    assert not caplog.records
