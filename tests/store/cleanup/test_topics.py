"""Topics are deleted, may be recreated, and do not reappear after a restart."""

import asyncio
import errno
from pathlib import Path

import pytest

from kerolox.store.check.check import check as verify
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import StoreFull
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import (
    ROOT,
    StillClock,
    all_records,
    config,
    draft,
    draft_of_size,
    new_store,
    numbered_records,
    opened,
    put,
    run,
    without_threads,
)

QUEUES = ROOT / "consumequeue"
UNITS = ROOT / "consumequeue_ext"
EXT = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 128}
COUNT = 18


@pytest.fixture(autouse=True)
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


def filled(disk: SimulatedDisk, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH, /, **settings: object) -> Store:
    """Return a store with two topics; the queues of one have several files."""
    store = opened(disk, config(flush, **settings), StillClock())
    for number in range(COUNT):
        put(store, draft(b"old %d" % number, "gone", number % 2), draft(b"kept", "kept"))
    return store


def reopened(disk: SimulatedDisk) -> Store:
    return opened(disk, config(), StillClock(1_700_001_000_000))


def test_a_deleted_topic_has_no_queues_no_files_and_no_offsets() -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    run(store.flush_behind.flush())
    assert disk.names(QUEUES) == ["gone", "kept"]

    assert run(store.topic_cleanup.delete(["gone", "never there"])) == 1

    assert disk.names(QUEUES) == ["kept"]
    assert store.reader.get("gone", 0, 0).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    assert put(store, draft(b"new", "gone"))[0].queue_offset == 0
    assert len(all_records(store, "gone")) == 1
    assert len(all_records(store, "kept")) == COUNT
    assert run(store.topic_cleanup.delete(["never there"])) == 0


def test_ext_units_are_deleted_with_their_queue() -> None:
    disk = SimulatedDisk()
    store = filled(disk, **EXT)
    run(store.flush_behind.flush())
    assert disk.names(UNITS) == ["gone", "kept"]
    assert len(disk.names(UNITS / "gone" / "0")) > 1

    run(store.topic_cleanup.delete(["gone"]))

    assert disk.names(UNITS) == ["kept"]
    put(store, draft(b"new", "gone", TAGS="tag"))
    run(store.flush_behind.flush())
    assert len(disk.names(UNITS / "gone" / "0")) == 1
    assert len(all_records(store, "gone")) == 1


def test_ext_units_that_could_not_be_deleted_are_deleted_by_the_next_start() -> None:
    disk = SimulatedDisk()
    store = filled(disk, **EXT)
    run(store.flush_behind.flush())
    disk.fail("rename", errno.EIO, inside="consumequeue_ext")

    run(store.topic_cleanup.delete(["gone"]))
    assert disk.names(UNITS) == ["gone", "kept"]
    run(store.close())

    disk.heal()
    again = opened(disk, config(**EXT), StillClock(1_700_001_000_000))
    assert disk.names(UNITS) == ["kept"]
    assert len(all_records(again, "kept")) == COUNT


def test_undispatched_messages_are_deleted_with_their_topic() -> None:
    """Under SYNC_FLUSH they are dispatched once durable, and the topic may have been recreated by then."""
    disk = SimulatedDisk()
    store = filled(disk, FlushDiskType.SYNC_FLUSH)
    assert store.queues.get("gone", 0) is None

    assert run(store.topic_cleanup.delete(["gone"])) == 1
    put(store, draft(b"new", "gone"))
    run(store.flusher.flush())

    assert [offset for offset, _ in numbered_records(store, "gone", 0)] == [0]
    assert store.queues.get("gone", 1) is None


def test_messages_refused_before_their_topic_was_deleted_do_not_reappear_after_a_kill() -> None:
    disk = SimulatedDisk()
    store = opened(disk, config(), StillClock())
    put(store, draft(b"old", "gone"))
    # The failed write leaves the first of them complete.
    disk.fail("write", errno.ENOSPC)
    with pytest.raises(StoreFull):
        store.append([draft(b"refused", "gone"), draft(b"x" * 1000, "gone")])
    disk.heal()

    run(store.topic_cleanup.delete(["gone"]))

    again = reopened(disk.after_kill())
    assert again.queues.get("gone", 0) is None


@pytest.mark.parametrize("is_recreated", [False, True])
@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_deleted_topic_does_not_reappear(is_recreated: bool, is_clean: bool, is_flushed: bool) -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    if is_flushed:
        run(store.flush_behind.flush())
    run(store.topic_cleanup.delete(["gone"]))
    if is_recreated:
        put(store, draft(b"new", "gone"), draft(b"newer", "gone"))
    if is_clean:
        run(store.close())

    again = reopened(disk.after_kill())

    expected = [0, 1] if is_recreated else []
    assert [offset for offset, _ in numbered_records(again, "gone", 0)] == expected
    assert put(again, draft(b"next", "gone"))[0].queue_offset == len(expected)
    assert put(again, draft(b"next", "gone", 1))[0].queue_offset == 0


def test_a_recreated_topic_with_a_damaged_first_record_is_not_confused_with_the_old_one() -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    run(store.topic_cleanup.delete(["gone"]))
    position, _ = put(store, draft(b"new", "gone"), draft(b"newer", "gone"))
    run(store.flusher.flush())
    disk.overwrite(ROOT / "commitlog" / f"{0:020d}", position.physical_offset, b"\xff" * 8)

    again = reopened(disk.after_kill())

    assert [offset for offset, _ in numbered_records(again, "gone", 0)] == [1]
    assert put(again, draft(b"next", "gone"))[0].queue_offset == 2


def test_a_deleted_topic_is_forgotten_when_the_log_has_no_records_of_it() -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    run(store.topic_cleanup.delete(["gone"]))
    path = ROOT / "config" / "deletedTopics.json"
    assert b"gone" in (disk.read(path) or b"")
    put(store, draft_of_size(4000), draft_of_size(4000))
    store.config.file_reserved_time = store.config.delete_commit_log_files_interval = 0
    store.retention.request_deletion()

    run(store.retention.clean())

    assert disk.read(path) == b"{}"


def test_deleting_a_topic_wakes_its_waiters() -> None:
    store = filled(SimulatedDisk())

    async def wait() -> bool:
        waiting = asyncio.create_task(store.message_waiters.wait("gone", 1, seconds=10))
        await asyncio.sleep(0)
        await store.topic_cleanup.delete(["gone"])
        return await waiting

    assert asyncio.run(wait())


def test_unused_topics_are_deleted_and_system_topics_kept() -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    system = ["SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_REVIVE_LOG_x", "%LMQ%light"]
    put(store, *(draft(b"x", topic) for topic in (*system, "%RETRY%group")))
    run(store.flush_behind.flush())

    assert run(store.topic_cleanup.clean_unused({"kept"})) == 2

    assert {topic for (topic, _), _ in store.queues.items()} == {"kept", *system}
    assert disk.names(QUEUES) == sorted(["kept", *system])


def test_many_topics_are_deleted_a_few_at_a_time() -> None:
    store = opened(SimulatedDisk())
    put(store, *(draft(b"x", f"topic{number}") for number in range(150)))

    assert run(store.topic_cleanup.clean_unused(["topic7"])) == 149

    assert [key for key, _ in store.queues.items()] == [("topic7", 0)]


def test_expired_queues_are_deleted_and_restart_at_offset_0() -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    put(store, draft(b"x", "rmq_sys_x"), draft_of_size(4000), draft(b"y", "gone", 1))
    put(store, draft_of_size(3000))
    run(store.flush_behind.flush())
    store.queues.find("made just now", 0)
    assert store.log.delete_before(store.log.end_offset) == 2

    assert run(store.topic_cleanup.clean_expired()) == 2

    assert {key for key, _ in store.queues.items()} == {
        ("gone", 1), ("rmq_sys_x", 0), ("t", 0), ("made just now", 0)
    }  # fmt: skip
    assert disk.names(QUEUES / "gone") == ["1"]
    assert disk.names(QUEUES) == ["gone", "rmq_sys_x", "t"]
    assert put(store, draft(b"x", "kept"))[0].queue_offset == 0
    assert put(reopened(disk.after_kill()), draft(b"x", "kept"))[0].queue_offset == 1


def test_a_queue_with_an_undispatched_message_has_not_expired() -> None:
    store = filled(SimulatedDisk(), FlushDiskType.SYNC_FLUSH)
    run(store.flush_behind.flush())
    put(store, draft_of_size(3000))
    run(store.flusher.flush())
    put(store, draft(b"on its way", "kept"))
    assert store.log.delete_before(store.log.end_offset) == 1

    assert run(store.topic_cleanup.clean_expired()) == 2
    run(store.flusher.flush())

    assert [key for key, _ in store.queues.items()] == [("kept", 0), ("t", 0)]
    assert [offset for offset, _ in numbered_records(store, "kept", 0)] == [COUNT]


@pytest.mark.parametrize("kinds", ["rename", "write", "sync", "remove", "remove_directory", "make_directory"])
def test_a_deletion_that_failed_halfway_can_be_repeated(kinds: str) -> None:
    for at in range(4):
        disk = SimulatedDisk()
        store = filled(disk)
        run(store.flush_behind.flush())
        seen = disk.counts[kinds]
        disk.fail(kinds, errno.EIO, at=at, count=1)
        try:
            run(store.topic_cleanup.delete(["gone"]))
        except OSError:
            pass
        else:
            assert disk.counts[kinds] - seen <= at
            break

        run(store.topic_cleanup.delete(["gone"]))
        put(store, draft(b"new", "gone"))

        assert store.queues.get("gone", 1) is None
        for left in (disk.after_kill(), *disk.after_power_cut(seed=at)):
            again = reopened(left)
            assert [offset for offset, _ in numbered_records(again, "gone", 0)] in ([], [0])
            assert again.queues.get("gone", 1) is None
            assert again.queues.find("kept", 0).max_offset == COUNT


@pytest.mark.parametrize("ext", [{}, EXT], ids=["plain", "with units"])
def test_every_stop_while_a_topic_is_deleted_and_recreated_leaves_a_consistent_store(
    tmp_path: Path, ext: dict[str, object]
) -> None:
    stop_after, is_done = 0, False
    while not is_done:
        disk = SimulatedDisk()
        store = filled(disk, FlushDiskType.SYNC_FLUSH, **ext)
        run(store.flush_behind.flush())
        disk.stop_after = disk.operations + stop_after
        is_deleted, promised = False, 0
        try:
            run(store.topic_cleanup.delete(["gone"]))
            is_deleted = True
            put(store, draft(b"new", "gone"), draft(b"new", "gone"))
            run(store.flusher.flush())
            promised = 2
            run(store.flush_behind.flush())
            is_done = True
        except Stopped:
            pass
        for number, left in enumerate((disk.after_kill(), *disk.after_power_cut(seed=stop_after))):
            again = new_store(left, config(**ext), StillClock(1_700_001_000_000))
            again.recover()
            bodies = {queue_id: all_records(again, "gone", queue_id) for queue_id in (0, 1)}
            news = [data for data in bodies[0] if b"new" in data]
            where = f"stop {stop_after}, image {number}"
            assert len(all_records(again, "kept")) == COUNT, where
            if is_deleted:
                assert bodies[0] == news, where
                assert bodies[1] == [], where
                assert len(news) >= promised, where
            for queue_id, found in bodies.items():
                # All old messages, none of them, or the new ones.
                assert len(found) in (0, COUNT // 2) or found == news, (where, queue_id)
            next_offset = put(again, draft(b"after", "gone"))[0].queue_offset
            assert next_offset == len(bodies[0]), where
            run(again.close())
            left.save(tmp_path / f"{stop_after}-{number}")
            assert left.names(UNITS) == (left.names(QUEUES) if ext else [])
            settings = config(**ext)
            settings.store_path_root_dir = tmp_path / f"{stop_after}-{number}" / "store"
            report = verify(settings)
            assert report.complaints == [], where
            assert not [note for note in report.notes if note.startswith("units")], where
        stop_after += 1
    assert stop_after > 20
