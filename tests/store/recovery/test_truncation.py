"""Truncation of the log: what was cut never comes back, whenever the machine stops."""

from collections.abc import Iterator

import pytest

from kerolox.message.records.summary import peek
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import StoreDamaged, StoreError, StoreReadOnly
from kerolox.store.recovery.truncation import FILE_NAME
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.oracle import verified
from tests.store.stores import (
    StillClock,
    batch,
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

QUEUES = [("orders", 0), ("orders", 1), ("t", 0)]
Contents = dict[tuple[str, int, int], bytes]


@pytest.fixture(autouse=True)
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


def served(store: Store) -> Contents:
    return {
        (topic, queue_id, offset): data
        for topic, queue_id in QUEUES
        for offset, data in numbered_records(store, topic, queue_id)
    }


def offset_of(data: bytes) -> int:
    return peek(data).physical_offset


def filled(disk: SimulatedDisk, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH) -> Store:
    """A store with three files of the log, whose queues and index are durable in part."""
    clock = StillClock()
    store = opened(disk, config(flush), clock)
    for number in range(12):
        put(store, draft(b"a" * 90 * (number % 4), TAGS="red", KEYS=f"k{number} both", UNIQ_KEY=f"{number:032d}"))
        put(store, batch([b"b", b"c" * number, b"d"], "orders", 1), draft_of_size(300 + 40 * number))
        clock.move(4)
        run(store.flusher.flush())
        if number % 5 == 4:
            run(store.flush_behind.flush())
    assert len(store.log.files()) >= 3
    return store


def request(store: Store, offset: int) -> None:
    store.request_truncation(offset)
    run(store.close())


def boundaries(store: Store) -> list[int]:
    return [*sorted(offset_of(data) for data in served(store).values()), store.log.end_offset]


def check(store: Store, expected: Contents) -> None:
    """The store serves exactly `expected`, finds its keys, and continues after it."""
    assert served(store) == expected
    found = {peeked.physical_offset for peeked in store.reader.find("orders", b"both")}
    assert found == {offset_of(data) for data in expected.values() if b"KEYS\x01" in data}
    for topic, queue_id in QUEUES:
        offsets = [offset for at_topic, at_queue, offset in expected if (at_topic, at_queue) == (topic, queue_id)]
        assert store.append_offset(topic, queue_id) == max(offsets, default=-1) + 1


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_cut_store_has_exactly_the_messages_before_the_cut(is_killed: bool) -> None:
    first_disk = SimulatedDisk()
    whole = served(filled(first_disk))
    cuts = boundaries(opened(first_disk.after_kill()))
    for cut in cuts:
        disk = SimulatedDisk()
        store = filled(disk)
        if is_killed:
            store.request_truncation(cut)
            disk = disk.after_kill()
        else:
            request(store, cut)
        again = opened(disk, config())
        expected = {at: data for at, data in whole.items() if offset_of(data) < cut}
        check(again, expected)
        assert again.log.end_offset == cut
        put(again, draft(b"after", "orders", 1))
        run(again.close())
        assert verified(disk, again.config).is_clean
        assert len(served(opened(disk, config()))) == len(expected) + 1


def stops(flush: FlushDiskType, cut_at: int) -> Iterator[tuple[SimulatedDisk, Contents, Contents]]:
    """Stop after each operation of a cut and of what follows it; yield the disk, what was kept and what was added."""
    number = 0
    while True:
        disk = SimulatedDisk()
        store = filled(disk, flush)
        whole = served(store)
        cut = boundaries(store)[cut_at]
        kept = {at: data for at, data in whole.items() if offset_of(data) < cut}
        request(store, cut)
        disk.stop_after = disk.operations + number
        added: Contents = {}
        is_stopped = True
        try:
            again = new_store(disk, config(flush), StillClock(1_700_000_900_000))
            again.recover()
            for name in (b"new", b"newer"):
                append = draft(name, "orders", 1, KEYS="both")
                try:
                    put(again, append)
                finally:
                    added["orders", 1, peek(bytes(append.records)).queue_offset] = bytes(append.records)
                run(again.flusher.flush())
            run(again.flush_behind.flush())
            is_stopped = False
        except Stopped:
            pass
        yield disk, kept, added
        if not is_stopped:
            assert number > 15
            return
        number += 1


@pytest.mark.parametrize("cut_at", [3, -12, -2])
def test_a_crash_at_any_moment_of_a_cut_never_revives_a_message(cut_at: int) -> None:
    for flush in FlushDiskType:
        for number, (disk, kept, added) in enumerate(stops(flush, cut_at)):
            for left in (disk.after_kill(), *disk.after_power_cut(seed=number, count=2)):
                store = opened(left, config(flush), StillClock(1_700_001_000_000))
                contents = served(store)
                assert kept.items() <= contents.items(), number
                assert contents.items() <= (kept | added).items(), number
                check(store, contents)
                verified(left, store.config)


@pytest.mark.parametrize("cut_at", [3, 20, -12])
def test_records_copied_after_a_cut_survive_a_crash_although_they_are_older_than_the_ones_cut(cut_at: int) -> None:
    disk = SimulatedDisk()
    store = filled(disk, FlushDiskType.SYNC_FLUSH)
    cut = boundaries(store)[cut_at]
    kept = {at: data for at, data in served(store).items() if offset_of(data) < cut}
    request(store, cut)
    # Another master has written them while this one wrote what is cut now.
    clock = StillClock(max(peek(data).store_timestamp for data in kept.values()) + 1)
    again = opened(disk, config(FlushDiskType.SYNC_FLUSH), clock)
    added: Contents = {}
    while len(again.log.files()) < 5 or again.log.end_offset < again.log.files()[-2][0] + 500:
        append = draft_of_size(250 + 10 * len(added))
        (position,) = put(again, append)
        added["t", 0, position.queue_offset] = bytes(append.records)
        run(again.flusher.flush())
    for left in (disk.after_kill(), *disk.after_power_cut(seed=cut_at, count=10)):
        last = opened(left, config(FlushDiskType.SYNC_FLUSH), clock)
        check(last, kept | added)
        run(last.close())
        assert verified(left, last.config).is_clean


def test_old_records_of_equal_size_are_not_revived_behind_new_ones() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    positions = put(store, *(draft_of_size(200) for _ in range(10)))
    run(store.flusher.flush())
    request(store, positions[4].physical_offset)
    again = opened(disk)
    put(again, draft_of_size(200))
    left = opened(disk.after_kill())
    assert left.log.end_offset == positions[4].end_offset
    assert len(list(numbered_records(left, "t", 0))) == 5


def test_a_log_is_cut_only_where_a_record_begins() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    (position,) = put(store, draft(b"body"))
    for offset in (position.physical_offset + 1, position.end_offset + 1, -1):
        with pytest.raises(StoreError, match="no record begins there"):
            store.request_truncation(offset)
    assert FILE_NAME not in disk.names(store.config.store_path_root_dir)


def test_nothing_is_appended_once_a_cut_is_requested() -> None:
    store = opened(SimulatedDisk())
    (position,) = put(store, draft(b"one"))
    store.request_truncation(position.physical_offset)
    with pytest.raises(StoreReadOnly, match="opened again"):
        put(store, draft(b"two"))


def test_an_unreadable_request_is_reported_and_changes_nothing() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, draft(b"one"))
    run(store.close())
    disk.write(store.config.store_path_root_dir / FILE_NAME, b"12x4")
    with pytest.raises(StoreDamaged, match="instead of the offset"):
        opened(disk)
    disk.remove(store.config.store_path_root_dir / FILE_NAME)
    assert len(list(numbered_records(opened(disk), "orders", 0))) == 1
