"""Queue-ext units: their bytes, their lifetime, and recovery after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerolox.message.records.summary import RecordSummary, peek
from kerolox.message.tags import tags_code
from kerolox.runtime.clock import Clock
from kerolox.store.config import StoreConfig
from kerolox.store.log.segments import OpenFiles, Segments
from kerolox.store.queue.queue_ext import ExtendedQueue, ExtUnit, QueueExt, is_address, valid_tags_code
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store, StoreHooks
from tests.golden.recordings import HERE
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.ext_cases import GOLDEN_SEGMENT_SIZE, GOLDEN_UNITS
from tests.store.stores import (
    ROOT,
    StillClock,
    config,
    draft,
    draft_of_size,
    opened,
    put,
    run,
    without_threads,
)

DIRECTORY = ROOT / "consumequeue_ext" / "orders" / "0"


def settings() -> StoreConfig:
    return config(enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=200)


def extended(disk: SimulatedDisk, clock: Clock | None = None) -> Store:
    return opened(disk, settings(), clock, StoreHooks(bit_map=bit_map_of))


def bit_map_of(record: RecordSummary) -> bytes:
    return b"%08d" % record.queue_offset


def queue_of(store: Store, topic: str = "orders") -> ExtendedQueue:
    queue = store.queues.find(topic, 0)
    assert isinstance(queue, ExtendedQueue)
    return queue


def units(store: Store, topic: str = "orders") -> list[ExtUnit | None]:
    queue = queue_of(store, topic)
    first = queue.min_offset
    return [queue.ext.unit(entry.tags_code) for entry in queue.entries(first, queue.max_offset - first)]


def maps(store: Store, topic: str = "orders") -> list[bytes | None]:
    return [unit.bit_map if unit else None for unit in units(store, topic)]


def expected_maps(first: int, end: int) -> list[bytes]:
    return [b"%08d" % number for number in range(first, end)]


def contents(disk: SimulatedDisk, directory: Path) -> list[bytes]:
    return [disk.read(directory / name) or b"" for name in disk.names(directory)]


# Bytes


def test_units_have_the_bytes_that_java_writes() -> None:
    disk = SimulatedDisk()
    ext = QueueExt(Segments(OpenFiles(disk, 10), DIRECTORY, GOLDEN_SEGMENT_SIZE, is_sparse=True))
    addresses = [ext.put(unit) for unit in GOLDEN_UNITS]
    ext.flush()
    *files, said = (HERE / "queue_ext.hex").read_text().split("\n")[:-1]

    assert [content.hex() for content in contents(disk, DIRECTORY)] == files
    assert " ".join(str(address) for address in addresses) == said


def test_units_written_by_java_are_read() -> None:
    *files, said = (HERE / "queue_ext.hex").read_text().split("\n")[:-1]
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    for number, content in enumerate(files):
        disk.write(DIRECTORY / f"{number * GOLDEN_SEGMENT_SIZE:020d}", bytes.fromhex(content))
    ext = QueueExt(Segments(OpenFiles(disk, 10), DIRECTORY, GOLDEN_SEGMENT_SIZE, is_sparse=True))
    ext.load()

    assert [ext.unit(int(address)) for address in said.split(" ")] == list(GOLDEN_UNITS)
    assert ext.unit(0) is ext.unit(-(2**31)) is None
    # In the middle of a unit, and beyond all of them.
    assert ext.unit(-(2**63) + 3) is ext.unit(-(2**63) + 10**6) is None


@pytest.mark.parametrize("size", [32748, 40_000])
def test_a_bit_map_too_large_for_a_unit_is_not_stored(size: int) -> None:
    segments = Segments(OpenFiles(SimulatedDisk(), 10), DIRECTORY, 10**6, is_sparse=True)

    assert QueueExt(segments).put(ExtUnit(1, 2, bytes(size))) is None
    assert QueueExt(segments).put(ExtUnit(1, 2, bytes(32747))) == -(2**63)


def test_a_unit_too_large_for_a_file_leaves_the_tags_code_in_the_entry() -> None:
    store = opened(SimulatedDisk(), settings(), hooks=StoreHooks(bit_map=lambda _: bytes(300)))
    put(store, draft(TAGS="red"))

    (entry,) = queue_of(store).entries(0, 1)

    assert entry.tags_code == tags_code(b"red")


# Lifetime


def test_each_entry_has_a_unit_that_filters_see() -> None:
    store = extended(SimulatedDisk())
    put(store, *[draft(TAGS="red") for _ in range(20)])
    red = tags_code(b"red")

    got = store.reader.get("orders", 0, 0, matches=lambda code, unit: unit is not None and unit.bit_map[-1:] == b"7")

    assert got.count == 2
    assert all(is_address(entry.tags_code) for entry in queue_of(store).entries(0, 20))
    assert [unit and unit.tags_code for unit in units(store)] == [red] * 20
    assert store.reader.get("orders", 0, 0, matches=lambda code, _: code == red).count == 20


def test_without_bit_map_function_units_have_no_bit_map() -> None:
    store = opened(SimulatedDisk(), settings())
    put(store, draft(TAGS="red"))

    assert [unit and unit.bit_map for unit in units(store)] == [b""]


def test_the_tags_code_is_unknown_if_the_unit_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = extended(disk)
    put(store, *[draft(TAGS="red") for _ in range(3)])
    run(store.close())
    plain = opened(disk)
    seen: list[object] = []

    def matches(*known: object) -> bool:
        seen.append(known)
        return False

    plain.reader.get("orders", 0, 0, matches=matches)

    assert seen == [(None, None)] * 3
    assert valid_tags_code(plain.queues.find("orders", 0), 5) == (5, None)


def test_units_are_kept_across_a_clean_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = extended(disk)
    put(store, *[draft() for _ in range(20)])
    run(store.close())

    again = extended(disk)
    assert maps(again) == expected_maps(0, 20)
    put(again, *[draft() for _ in range(20)])
    assert maps(again) == expected_maps(0, 40)
    run(again.close())

    assert maps(extended(disk)) == expected_maps(0, 40)


def test_units_are_rebuilt_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = extended(disk)
    for round_number in range(6):
        put(store, *[draft_of_size(700, "orders") for _ in range(10)])
        if round_number % 2:
            run(store.flush_behind.flush())
    run(store.flusher.flush())

    for left in (disk.after_kill(), *disk.after_power_cut(count=10)):
        again = extended(left)
        assert maps(again) == expected_maps(0, 60)
        put(again, draft())
        assert maps(again) == expected_maps(0, 61)
        addresses = [entry.tags_code for entry in queue_of(again).entries(0, 61)]
        assert addresses == sorted(set(addresses))


def run_twice(disk: SimulatedDisk) -> None:
    clock = StillClock()
    for _ in range(2):
        store = extended(disk, clock)
        for _ in range(3):
            put(store, *[draft(b"x" * 300, TAGS="red") for _ in range(5)], draft(topic="t"))
            run(store.flusher.flush())
            put(store, draft(b"y"))
            run(store.flush_behind.flush())
            clock.move(10)
        run(store.close())


def test_after_a_crash_at_any_operation_each_entry_has_its_own_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    whole = SimulatedDisk()
    run_twice(whole)
    for stop_after in range(0, whole.operations, 2):
        disk = SimulatedDisk()
        disk.stop_after = stop_after
        with pytest.raises(Stopped):
            run_twice(disk)
        for left in (disk.after_kill(), *disk.after_power_cut(seed=stop_after, count=1)):
            store = extended(left)
            check_units(store)
            put(store, draft(b"after"), draft(topic="t"))
            check_units(store)
            run(store.close())
            check_units(extended(left))


def check_units(store: Store) -> None:
    for (topic, queue_id), queue in store.queues.items():
        assert isinstance(queue, ExtendedQueue)
        # A filler stands for a record that the log has lost.
        entries = [(at, entry) for at, entry in enumerate(queue.entries(0, queue.max_offset)) if not entry.is_filler]
        addresses = [entry.tags_code for _, entry in entries]
        assert addresses == sorted(set(addresses))
        for offset, entry in entries:
            record = store.reader.record_at(store.reader.physical_offset(topic, queue_id, offset) or 0)
            if record is not None:
                known = peek(record)
                assert queue.ext.unit(entry.tags_code) == (known.tags_code, known.store_timestamp, b"%08d" % offset)


def test_cutting_a_queue_removes_the_units_of_lost_entries() -> None:
    store = extended(SimulatedDisk())
    appended = put(store, *[draft() for _ in range(20)])
    queue = queue_of(store)
    queue.flush()
    put(store, *[draft() for _ in range(4)])

    for count in (22, 20, 13, 7, 0):
        end = appended[count].physical_offset if count < 20 else store.log.end_offset - (24 - count) * 98
        queue.cut(end)
        assert maps(store) == expected_maps(0, count)
        last = queue.entry(count - 1) if count else None
        assert queue.ext.end_offset == (last.tags_code + 2**63 + 28 if last else 0)
    assert queue.append_extended(0, 10**6, 98, ExtUnit(1, 2, b"new"))
    assert maps(store) == [b"new"]


def test_files_of_units_are_deleted_with_the_entries_that_refer_to_them() -> None:
    disk = SimulatedDisk()
    store = extended(disk)
    put(store, *[draft_of_size(1000, "orders") for _ in range(40)])
    queue = queue_of(store)
    queue.flush()
    before = len(disk.names(DIRECTORY))
    store.log.delete_before(24_000)

    queue.delete_before(store.log.first_offset)

    assert queue.min_offset > 8
    assert len(disk.names(DIRECTORY)) < before
    assert maps(store) == expected_maps(queue.min_offset, 40)


def test_after_units_were_removed_no_address_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = extended(disk)
    put(store, *[draft() for _ in range(10)])
    run(store.close())
    for name in disk.names(DIRECTORY):
        disk.remove(DIRECTORY / name)

    again = extended(disk)
    put(again, *[draft() for _ in range(3)])

    assert maps(again) == [None] * 10 + expected_maps(10, 13)
    got = again.reader.get("orders", 0, 0, matches=lambda code, unit: code is None)
    assert (got.status, got.count) == (GetStatus.FOUND, 10)


def test_enabling_units_later_affects_only_new_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    plain = opened(disk)
    put(plain, *[draft(TAGS="red") for _ in range(10)])
    run(plain.close())

    store = extended(disk)
    put(store, draft())

    assert maps(store) == [None] * 10 + expected_maps(10, 11)
    assert valid_tags_code(queue_of(store), tags_code(b"red")) == (tags_code(b"red"), None)
