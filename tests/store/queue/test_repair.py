"""QueueRepair: consumers get the right messages although entries were damaged on disk."""

import asyncio
import errno
from pathlib import Path

import pytest

from kerolox.message.records.summary import peek
from kerolox.message.tags import tags_code
from kerolox.runtime.clock import ManualClock
from kerolox.store.errors import StoreError
from kerolox.store.queue.consume_queue import ENTRY_SIZE
from kerolox.store.queue.repair import QueueRepair
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT, StillClock, all_records, config, draft, opened, put, run, without_threads

QUEUES = ROOT / "consumequeue"
# Large enough for all entries of a queue to be in one file.
SETTINGS = {"mapped_file_size_consume_queue": 20 * 100, "mapped_file_size_commit_log": 64 * 1024}
MESSAGES = 60


@pytest.fixture(autouse=True)
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


def stopped_store(disk: SimulatedDisk, *, is_clean: bool = True) -> dict[tuple[str, int], list[bytes]]:
    """Fill two queues of each of two topics in turns, and return their records."""
    store = opened(disk, config(**SETTINGS))
    for number in range(MESSAGES):
        for topic in ("orders", "parts"):
            put(
                store, draft(b"%d" % number * (number % 7), topic, number % 2, TAGS="even" if number % 4 < 2 else "odd")
            )
    written = {(topic, queue): all_records(store, topic, queue) for topic in ("orders", "parts") for queue in (0, 1)}
    run(store.flush_behind.flush())
    if is_clean:
        run(store.close())
    return written


def path_of(topic: str, queue_id: int) -> Path:
    return QUEUES / topic / str(queue_id) / f"{0:020d}"


def reopened(disk: SimulatedDisk) -> Store:
    return opened(disk.after_kill(), config(**SETTINGS))


def served(store: Store) -> dict[tuple[str, int], list[bytes]]:
    return {(topic, queue): all_records(store, topic, queue) for topic in ("orders", "parts") for queue in (0, 1)}


def test_entries_of_another_topic_are_replaced_by_those_of_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    written = stopped_store(disk)
    # Damage entries in the middle, so that both ends of the queue stay valid.
    size = 10 * ENTRY_SIZE
    other = disk.content(path_of("parts", 0))[size : 2 * size]
    disk.overwrite(path_of("orders", 0), size, other)

    store = reopened(disk)
    assert served(store) == written

    assert "consume queue orders/0: rebuilt 10 of the entries from 9 to 27" in caplog.text
    run(store.close())


@pytest.mark.parametrize("count_max", [1, 3, 32, 64, 1000])
def test_garbage_between_entries_hides_no_message_from_any_pull(count_max: int) -> None:
    disk = SimulatedDisk()
    written = stopped_store(disk)
    disk.overwrite(path_of("orders", 1), 7 * ENTRY_SIZE, bytes(range(1, 201)))

    store = reopened(disk)
    found: list[bytes] = []
    while len(found) < MESSAGES // 2:
        got = store.reader.get("orders", 1, len(found), count_max=count_max, bounds=store.reader.bulk_bounds)
        assert got.status is GetStatus.FOUND
        found += got.records

    assert found == written["orders", 1]
    run(store.close())


def test_a_filtering_consumer_gets_messages_that_garbage_would_have_hidden() -> None:
    disk = SimulatedDisk()
    written = stopped_store(disk)
    disk.overwrite(path_of("orders", 0), 5 * ENTRY_SIZE, b"\x7f" * 200)

    store = reopened(disk)
    wanted = tags_code(b"even")
    found: list[bytes] = []
    offset = 0
    while offset < MESSAGES // 2:
        got = store.reader.get("orders", 0, offset, matches=lambda code, _: code == wanted)
        found, offset = found + got.records, got.next_offset

    assert found == [record for record in written["orders", 0] if peek(record).tags_code == wanted]
    run(store.close())


def test_repaired_entries_are_kept_after_the_next_start(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    written = stopped_store(disk)
    intact = disk.content(path_of("orders", 0))
    disk.overwrite(path_of("orders", 0), 3 * ENTRY_SIZE, b"garbage, and more" * 5)
    store = opened(disk, config(**SETTINGS))
    assert served(store) == written
    run(store.close())

    for left in disk.after_power_cut():
        assert left.content(path_of("orders", 0)) == intact
    caplog.clear()
    assert served(reopened(disk)) == written
    assert caplog.text == ""


def test_a_message_missing_from_the_log_is_reported_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    written = stopped_store(disk)
    store = opened(disk, config(**SETTINGS))
    lost = peek(written["orders", 0][4])
    disk.overwrite(ROOT / "commitlog" / f"{0:020d}", lost.physical_offset + 4, b"\xff")

    assert served(store)["orders", 0] == written["orders", 0][:4] + written["orders", 0][5:]

    assert f"no record from {lost.physical_offset} to" in caplog.text
    run(store.close())


def test_large_damage_is_repaired_in_the_background_and_not_served_meanwhile() -> None:
    disk = SimulatedDisk()
    written = stopped_store(disk)
    other = disk.content(path_of("parts", 0))[ENTRY_SIZE : 29 * ENTRY_SIZE]
    disk.overwrite(path_of("orders", 0), ENTRY_SIZE, other)
    store = reopened(disk)
    segments, records = store._segments, store.reader.records
    repair = QueueRepair(segments, records, store.queues, store.dispatcher, ManualClock(), inline_size_max=1000)
    store.reader._queue_repair = repair

    with pytest.raises(StoreError, match="orders/0 is damaged and being rebuilt"):
        store.reader.get("orders", 0, 1)
    assert all_records(store, "parts", 0) == written["parts", 0]
    with pytest.raises(StoreError, match="orders/0 is damaged and being rebuilt"):
        store.reader.get("orders", 0, 1)
    asyncio.run(repair.repair_wanted())

    assert served(store) == written
    run(store.close())


def test_a_failed_repair_is_not_retried_at_once() -> None:
    disk = SimulatedDisk()
    written = stopped_store(disk)
    disk.overwrite(path_of("orders", 0), 5 * ENTRY_SIZE, b"\x7f" * 20 * ENTRY_SIZE)
    clock = StillClock()
    store = opened(disk, config(**SETTINGS), clock)
    disk.fail("write", errno.EIO, inside="consumequeue")
    with pytest.raises(StoreError, match="orders/0 could not be repaired"):
        store.reader.get("orders", 0, 24)
    disk.heal()

    with pytest.raises(StoreError, match="orders/0 is damaged and could not be repaired"):
        store.reader.get("orders", 0, 24)
    clock.move(11)
    assert served(store) == written
    run(store.close())


def test_entries_written_by_this_process_are_not_compared_with_the_log() -> None:
    store = opened(SimulatedDisk(), config(**SETTINGS))
    put(store, *(draft(b"%d" % number) for number in range(5)))
    queue = store.queues.get("orders", 0)
    assert queue is not None

    assert not queue.is_doubtful(0, 5)


def test_entries_compared_once_are_trusted_afterwards() -> None:
    disk = SimulatedDisk()
    stopped_store(disk)
    store = reopened(disk)
    queue = store.queues.get("orders", 0)
    assert queue is not None
    assert queue.is_doubtful(0, 1)

    store.reader.get("orders", 0, 0, count_max=10)
    assert not queue.is_doubtful(0, 10)
    assert queue.is_doubtful(0, 11)

    all_records(store, "orders", 0)
    assert queue.trusted_offset == 0
    run(store.close())


def test_entries_of_light_queues_may_point_to_records_of_other_topics() -> None:
    """Java's LMQ dispatch adds a record to further queues, whose offsets differ from the record's."""
    disk = SimulatedDisk()
    store = opened(disk, config(**SETTINGS))
    place = put(store, draft(b"first"), draft(b"second"))[1]
    store.queues.find("%LMQ%light", 0).append(0, place.physical_offset, place.end_offset - place.physical_offset, 0)
    run(store.close())

    got = reopened(disk).reader.get("%LMQ%light", 0, 0)

    assert [peek(record).physical_offset for record in got.records] == [place.physical_offset]
