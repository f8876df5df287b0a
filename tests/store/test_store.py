"""The store as a whole."""

import asyncio
import contextlib
import errno
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.message import sysflag
from kerolox.message.records.record import decode
from kerolox.message.tags import tags_code
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import NotStorable, StoreError, StoreFull, StoreReadOnly
from kerolox.store.lock import StoreLocked
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, ROOT, all_records, batch, config, draft, draft_of_size, new_store, opened, put

SYNC = FlushDiskType.SYNC_FLUSH


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@contextlib.asynccontextmanager
async def running(store: Store) -> AsyncIterator[Store]:
    await store.open()
    task = asyncio.create_task(store.run())
    try:
        yield store
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()


def bodies(records: list[bytes]) -> list[bytes]:
    return [decode(data).body for data in records]


# Appending


async def test_a_message_is_read_as_it_was_put(disk: SimulatedDisk) -> None:
    async with running(new_store(disk)) as store:
        append = draft(b"hello", TAGS="red", KEYS="a b")

        position, status = await store.put(append)

        assert (position.physical_offset, position.queue_offset, status) == (0, 0, AckStatus.OK)
        assert store.reader.get("orders", 0, 0).records == [bytes(append.records)]


async def test_messages_put_in_one_loop_iteration_are_written_with_one_write(disk: SimulatedDisk) -> None:
    async with running(new_store(disk, config(message_index_enable=False))) as store:
        await store.put(draft())
        before = disk.counts["write"]

        results = await asyncio.gather(*[store.put(draft(b"%d" % number)) for number in range(25)])

        assert disk.counts["write"] - before == 1
        assert [position.queue_offset for position, _ in results] == list(range(1, 26))


async def test_a_thousand_senders_share_few_syncs(disk: SimulatedDisk) -> None:
    async with running(new_store(disk, config(SYNC, mapped_file_size_commit_log=1024 * 1024))) as store:
        await store.put(draft())
        before = disk.counts["sync"]

        results = await asyncio.gather(*[store.put(draft()) for _ in range(1000)])

        assert all(status is AckStatus.OK for _, status in results)
        assert disk.counts["sync"] - before == 1


async def test_each_queue_has_its_own_offsets(disk: SimulatedDisk) -> None:
    store = opened(disk)

    positions = put(store, draft(), draft(queue_id=1), draft(), batch([b"a", b"b"]), draft(), draft(queue_id=1))

    assert [position.queue_offset for position in positions] == [0, 0, 1, 2, 4, 1]


async def test_prepared_messages_take_no_queue_offset(disk: SimulatedDisk) -> None:
    store = opened(disk)

    positions = put(store, draft(), draft(sys_flag=sysflag.PREPARED), draft(sys_flag=sysflag.COMMIT))

    assert [position.queue_offset for position in positions] == [0, 0, 1]
    assert len(all_records(store)) == 2


async def test_a_message_that_cannot_be_stored_is_refused_without_affecting_others(disk: SimulatedDisk) -> None:
    async with running(new_store(disk)) as store:
        results = await asyncio.gather(
            store.put(draft(b"good")),
            store.put(draft_of_size(4089)),
            store.put(draft(topic="a/b")),
            store.put(draft(b"good")),
            return_exceptions=True,
        )

        assert [isinstance(result, NotStorable) for result in results] == [False, True, True, False]
        with pytest.raises(NotStorable, match="an append of 4089 bytes exceeds 4088"):
            await store.put(draft_of_size(4089))
        assert bodies(all_records(store)) == [b"good", b"good"]


async def test_on_a_full_disk_sends_fail_and_succeed_again_later(disk: SimulatedDisk) -> None:
    async with running(new_store(disk, config(message_index_enable=False))) as store:
        await store.put(draft_of_size(3000))
        disk.fail("allocate", errno.ENOSPC)

        results = await asyncio.gather(
            store.put(draft_of_size(200)), store.put(draft_of_size(2000)), return_exceptions=True
        )

        assert [isinstance(result, StoreFull) for result in results] == [False, True]
        assert len(all_records(store, "t")) == 2
        disk.heal()
        position, _ = await store.put(draft_of_size(2000))
        assert position.queue_offset == 2


# Visibility


async def test_under_sync_flush_messages_are_invisible_until_they_are_durable(disk: SimulatedDisk) -> None:
    store = opened(disk, config(SYNC))

    put(store, draft(KEYS="k"))
    assert store.reader.get("orders", 0, 0).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    assert store.reader.find("orders", b"k") == []
    await store.flusher.flush()

    assert store.reader.get("orders", 0, 0).status is GetStatus.FOUND
    assert len(store.reader.find("orders", b"k")) == 1


async def test_a_message_synced_after_its_sender_timed_out_is_visible(disk: SimulatedDisk) -> None:
    store = new_store(disk, config(SYNC, sync_flush_timeout=1))
    await store.open()

    _, status = await store.put(draft())
    assert status is AckStatus.FLUSH_DISK_TIMEOUT
    await store.flusher.flush()

    assert len(all_records(store)) == 1


async def test_a_sender_with_wait_false_does_not_wait_and_the_message_is_visible_soon(disk: SimulatedDisk) -> None:
    """The property WAIT. The append itself must trigger a sync, since the next interval is far away."""
    async with running(new_store(disk, config(SYNC, flush_interval_commit_log=600_000))) as store:
        waiting = asyncio.create_task(store.message_waiters.wait("orders", 0, seconds=20))
        append = draft()
        append.is_awaited = False

        _, status = await store.put(append)
        assert status is AckStatus.OK
        assert all_records(store) == []

        assert await waiting
        assert len(all_records(store)) == 1


async def test_a_waiter_is_woken_when_the_message_can_be_read(disk: SimulatedDisk) -> None:
    async with running(new_store(disk, config(SYNC))) as store:
        waiting = asyncio.create_task(store.message_waiters.wait("orders", 0, seconds=20))
        await asyncio.sleep(0)

        await store.put(draft())

        assert await waiting
        assert store.reader.get("orders", 0, 0).status is GetStatus.FOUND


async def test_after_a_failed_sync_sends_are_refused_and_reads_continue(disk: SimulatedDisk) -> None:
    async with running(new_store(disk, config(SYNC))) as store:
        await store.put(draft(b"good"))
        disk.fail("sync", errno.EIO, inside="commitlog", count=1)

        for _ in range(3):
            with pytest.raises(StoreReadOnly):
                await store.put(draft(b"bad"))

        assert bodies(all_records(store)) == [b"good"]
    assert disk.read(ROOT / "abort") is not None


# Reading


async def test_reading_has_the_statuses_of_java(disk: SimulatedDisk) -> None:
    store = opened(disk)
    store.queues.find("empty", 0)
    put(store, *[draft(b"%d" % number) for number in range(5)])

    def status(topic: str, offset: int) -> tuple[GetStatus, int]:
        got = store.reader.get(topic, 0, offset)
        return got.status, got.next_offset

    assert status("unknown", 3) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0)
    assert status("empty", 3) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)
    assert status("orders", -1) == (GetStatus.OFFSET_TOO_SMALL, 0)
    assert status("orders", 0) == (GetStatus.FOUND, 5)
    assert status("orders", 4) == (GetStatus.FOUND, 5)
    assert status("orders", 5) == (GetStatus.OFFSET_OVERFLOW_ONE, 5)
    assert status("orders", 6) == (GetStatus.OFFSET_OVERFLOW_BADLY, 5)


async def test_an_offset_below_the_first_is_too_small(disk: SimulatedDisk) -> None:
    store = opened(disk, config(max_filter_message_size=80))
    put(store, *[draft_of_size(1500) for _ in range(10)])
    store.log.delete_before(9000)
    assert store.reader.get("t", 0, 0, count_max=4).status is GetStatus.MESSAGE_WAS_REMOVING

    for queue in store.queues:
        queue.delete_before(store.log.first_offset)

    got = store.reader.get("t", 0, 0)
    assert (got.status, got.next_offset, got.min_offset, got.max_offset) == (GetStatus.OFFSET_TOO_SMALL, 4, 4, 10)
    assert len(all_records(store, "t")) == 6


async def test_a_read_returns_at_most_the_wanted_amount_and_at_least_one_message(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, *[draft_of_size(1000) for _ in range(6)])

    assert len(store.reader.get("t", 0, 0, count_max=2).records) == 2
    assert store.reader.get("t", 0, 0, count_max=2).next_offset == 2
    assert len(store.reader.get("t", 0, 0, bytes_max=3000).records) == 3
    assert len(store.reader.get("t", 0, 0, bytes_max=2999).records) == 2
    assert len(store.reader.get("t", 0, 0, bytes_max=1).records) == 1
    assert store.reader.get("t", 0, 5, count_max=100).next_offset == 6


async def test_only_matching_messages_are_read(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, *[draft(b"%d" % number, TAGS="red" if number % 3 else "blue") for number in range(10)])
    blue = tags_code(b"blue")

    got = store.reader.get("orders", 0, 0, matches=lambda code, _: code == blue)
    assert (bodies(got.records), got.next_offset) == ([b"0", b"3", b"6", b"9"], 10)
    got = store.reader.get("orders", 0, 1, count_max=1, matches=lambda code, _: code == blue)
    assert bodies(got.records) == [b"3"]
    got = store.reader.get("orders", 0, 0, matches=lambda *_: False)

    assert (got.status, got.next_offset, got.records) == (GetStatus.NO_MATCHED_MESSAGE, 10, [])


async def test_a_read_without_matches_stops_after_800_entries(disk: SimulatedDisk) -> None:
    store = opened(disk, config(mapped_file_size_commit_log=1024 * 1024, mapped_file_size_consume_queue=20 * 10_000))
    put(store, *[draft() for _ in range(2000)])

    assert store.reader.get("orders", 0, 0, matches=lambda *_: False).next_offset == 800
    assert store.reader.get("orders", 0, 0, count_max=1000, matches=lambda *_: False).next_offset == 1000
    assert store.reader.get("orders", 0, 1900, matches=lambda *_: False).next_offset == 2000


async def test_messages_are_found_by_their_keys(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, draft(KEYS="a b", UNIQ_KEY="u1"), draft(KEYS="b"), draft(topic="other", KEYS="a"), draft())

    def found(topic: str, key: bytes) -> list[int]:
        return [known.queue_offset for known in store.reader.find(topic, key)]

    assert found("orders", b"a") == [0]
    assert found("orders", b"b") == [1, 0]
    assert found("orders", b"u1") == [0]
    assert found("orders", b"c") == []
    assert found("other", b"a") == [0]
    assert len(store.reader.find("orders", b"b", count_max=1)) == 1


async def test_a_store_without_an_index_finds_nothing_by_keys(disk: SimulatedDisk) -> None:
    store = opened(disk, config(message_index_enable=False))
    put(store, draft(KEYS="a"))

    assert store.reader.find("orders", b"a") == []
    assert disk.names(ROOT / "index") == []


async def test_an_entry_that_points_to_no_record_is_not_served(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, draft(b"0"), draft(b"1"))
    store.queues.find("orders", 0).append(2, 150, 98, 0)

    assert len(store.reader.get("orders", 0, 0).records) == 2
    assert store.reader.get("orders", 0, 2).status is GetStatus.MESSAGE_WAS_REMOVING


@pytest.mark.parametrize("offset", [-1, 1, 97, 98, 10_000])
async def test_record_at_returns_none_where_no_record_begins(disk: SimulatedDisk, offset: int) -> None:
    store = opened(disk)
    put(store, draft(b"0"))

    assert store.reader.record_at(0, 98) is not None
    assert store.reader.record_at(offset, 98) is None
    assert store.reader.record_at(0, 97) is None
    assert store.reader.record_at(0, -1) is None


async def test_a_log_that_cannot_be_read_is_a_store_error(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, draft(KEYS="k"))
    put(store, draft(KEYS="k"))
    disk.fail("view", errno.ENOMEM)
    disk.fail("read", errno.EIO)

    with pytest.raises(StoreError, match="could not be read"):
        store.reader.get("orders", 0, 0)
    with pytest.raises(StoreError, match="could not be read"):
        store.reader.find("orders", b"k")


# Lifecycle


async def test_a_closed_store_accepts_nothing_and_can_be_closed_again(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, draft())
    await store.close()
    await store.close()

    with pytest.raises(StoreReadOnly, match="not open"):
        store.append([draft()])
    with pytest.raises(StoreReadOnly, match="not open"):
        await store.put(draft())

    assert disk.open_count == 0
    assert disk.read(ROOT / "abort") is None


async def test_messages_survive_many_restarts(disk: SimulatedDisk) -> None:
    for restart in range(5):
        async with running(new_store(disk)) as store:
            assert len(all_records(store)) == restart * 10
            await asyncio.gather(*[store.put(draft(b"%d" % restart * 50, KEYS="k")) for _ in range(10)])
        assert disk.open_count == 0

    assert len(opened(disk).reader.find("orders", b"k", count_max=100)) == 50


async def test_a_running_store_survives_failing_queue_writes(disk: SimulatedDisk) -> None:
    clock = ManualClock()
    store = new_store(disk, clock=clock)
    async with running(store):
        await store.put(draft())
        disk.fail("write truncate", errno.EIO, inside="consumequeue")
        for _ in range(3):
            await clock.advance(1)
        disk.heal()
        await store.put(draft())
        assert len(all_records(store)) == 2

    assert len(all_records(opened(disk))) == 2


async def test_a_store_cancelled_during_a_flush_closes_cleanly(disk: SimulatedDisk) -> None:
    for turns in range(12):
        clock = ManualClock()
        store = new_store(disk, clock=clock)
        await store.open()
        task = asyncio.create_task(store.run())
        await store.put(draft())
        await clock.advance(1)
        for _ in range(turns):
            await asyncio.sleep(0)

        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()

        assert disk.read(ROOT / "abort") is None
    assert len(all_records(opened(disk))) == 12


async def test_queues_may_be_created_while_others_are_flushed(disk: SimulatedDisk) -> None:
    store = opened(disk)
    put(store, *[draft(queue_id=number) for number in range(10)])

    async def put_more() -> None:
        for number in range(10, 40):
            put(store, draft(queue_id=number))
            await asyncio.sleep(0)

    await asyncio.gather(store.flush_behind.flush(), put_more())
    await store.close()

    assert len(opened(disk).queues) == 40


# On a real disk


async def test_a_store_on_a_real_disk(tmp_path: Path) -> None:
    settings = config(SYNC)
    settings.store_path_root_dir = tmp_path / "new" / "store"
    for restart in range(3):
        async with running(Store(settings)) as store:
            await asyncio.gather(*[store.put(draft(b"x" * 500, KEYS="k")) for _ in range(20)])
            assert len(all_records(store)) == (restart + 1) * 20
            assert len(store.reader.find("orders", b"k", count_max=1000)) == (restart + 1) * 20
    names = sorted(path.name for path in (tmp_path / "new" / "store").iterdir())
    assert names == ["checkpoint", "commitlog", "consumequeue", "derived", "index", "lock"]


async def test_only_one_process_can_open_a_store(tmp_path: Path) -> None:
    settings = config()
    settings.store_path_root_dir = tmp_path
    script = (
        "import sys; from pathlib import Path; from kerolox.store.lock import take_lock;"
        "take_lock(Path(sys.argv[1])); print('taken', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"taken\n"

    with pytest.raises(StoreLocked, match="another process has the store open"):
        await Store(settings).open()
    assert not (tmp_path / "abort").exists()
    other.communicate()

    store = Store(settings, disk=RealDisk())
    await store.open()
    await store.close()


async def test_the_commit_log_may_be_in_another_directory(disk: SimulatedDisk) -> None:
    elsewhere = Path("/elsewhere/log")
    store = opened(disk, config(store_path_commit_log=elsewhere))
    put(store, draft())
    await store.close()

    assert disk.names(LOG) == []
    assert disk.names(elsewhere) == [f"{0:020d}"]
