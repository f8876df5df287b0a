"""Ranges of a log: each starts at a record, together they cover the log up to its durable end."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError
from kerolox.spark.store.ranges import LogRange, Period, StoreFiles, plan_ranges, range_size
from kerolox.store.check.dump import dump
from kerolox.store.errors import StoreDamaged
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, ROOT, SEGMENT_SIZE, StillClock, config, draft, opened, put, run, without_threads

QUEUES = ROOT / "consumequeue"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """A closed store: forty messages in two topics and several files, one per second."""
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    fill(disk)
    return disk


def fill(disk: SimulatedDisk, *, is_closed: bool = True) -> None:
    clock = StillClock()
    store = opened(disk, clock=clock)
    for number in range(40):
        put(store, draft(b"%d" % number + b" " * 200, "ab"[number % 2], number // 2 % 2))
        clock.move(1)
    if is_closed:
        run(store.close())


def record_offsets(disk: SimulatedDisk) -> list[int]:
    return [message.physical_offset for message in dump(config(), disk=disk)]


def plan(disk: SimulatedDisk, path: Path = ROOT, **options: object) -> list[LogRange]:
    files = StoreFiles(path, disk)
    try:
        return plan_ranges(files, **options)  # type: ignore[arg-type]
    finally:
        files.close()


@pytest.mark.parametrize("size", [300, 1000, 2048, 10**6])
@pytest.mark.parametrize("has_queues", [True, False])
def test_ranges_cover_the_log_and_start_at_records(disk: SimulatedDisk, size: int, has_queues: bool) -> None:
    if not has_queues:
        remove_queues(disk)
    offsets = record_offsets(disk)

    found = plan(disk, size=size)

    assert all(log_range.start in offsets for log_range in found)
    assert [
        offset for offset in offsets if any(log_range.start <= offset < log_range.end for log_range in found)
    ] == offsets
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))
    assert all(one.start // SEGMENT_SIZE == (one.end - 1) // SEGMENT_SIZE for one in found)
    if size == 10**6:
        assert [log_range.start for log_range in found] == list(range(0, max(offsets) + 1, SEGMENT_SIZE))
    else:
        assert len(found) > max(offsets) // SEGMENT_SIZE + 1


@pytest.mark.parametrize("left", ["a", "b"])
def test_records_without_a_consume_queue_entry_are_read(disk: SimulatedDisk, left: str) -> None:
    offsets = record_offsets(disk)
    remove_queues(disk, except_of=left)

    assert covered(plan(disk, size=1000), dict.fromkeys(offsets, 0)) == offsets


def test_a_queue_entry_without_a_record_is_ignored(disk: SimulatedDisk) -> None:
    offsets = record_offsets(disk)
    queue = QUEUES / "a" / "0"
    (*_, last) = disk.names(queue)
    # Let the first unwritten entry point far behind the last record.
    content = disk.content(queue / last)
    at = next(at for at in range(0, len(content), 20) if not any(content[at : at + 20]))
    disk.overwrite(queue / last, at, struct.pack(">qiq", offsets[-1] + 1000, 300, 0))

    assert covered(plan(disk, size=1000), dict.fromkeys(offsets, 0)) == offsets


def test_range_size_depends_on_cores_and_is_bounded() -> None:
    mib = 1024 * 1024

    assert range_size(600 * mib, 2) == 300 * mib
    assert range_size(40 * mib, 8) == 32 * mib
    assert range_size(10_000 * mib, 2) == 512 * mib
    assert range_size(10_000 * mib, 2, has_period=True) == 128 * mib


def test_a_commitlog_directory_alone_is_enough(disk: SimulatedDisk) -> None:
    offsets = record_offsets(disk)

    assert covered(plan(disk, LOG, size=1000), dict.fromkeys(offsets, 0)) == offsets


def test_ranges_end_with_the_last_record(disk: SimulatedDisk) -> None:
    *_, last = dump(config(), disk=disk)

    assert plan(disk)[-1].end > last.physical_offset
    assert plan(disk)[-1].end - last.physical_offset < 400


def test_records_that_are_not_durable_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    fill(disk, is_closed=False)
    times = {message.physical_offset: message.store_timestamp for message in dump(config(), disk=disk)}
    durable = sorted(times.values())[24]
    disk.write(ROOT / "checkpoint", struct.pack(">qq", durable, durable).ljust(4096, b"\0"))

    found = plan(disk, size=1000)
    unflushed = plan(disk, size=1000, reads_unflushed=True)

    assert covered(found, times) == sorted(offset for offset, time in times.items() if time <= durable)
    assert covered(unflushed, times) == sorted(times)


def test_without_a_checkpoint_nothing_of_a_running_store_counts_as_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    fill(disk, is_closed=False)
    if disk.read(ROOT / "checkpoint") is not None:
        disk.remove(ROOT / "checkpoint")

    assert covered(plan(disk), dict.fromkeys(record_offsets(disk), 0)) == []


def test_only_ranges_of_the_period_are_read(disk: SimulatedDisk) -> None:
    times = {message.physical_offset: message.store_timestamp for message in dump(config(), disk=disk)}
    everything = plan(disk, size=300)
    minute = 60_000
    first, last = min(times.values()), max(times.values())

    assert plan(disk, size=300, period=Period(first - 5 * minute, first - 2 * minute)) == []
    assert plan(disk, size=300, period=Period(last + 10 * minute)) == everything[-1:]
    assert plan(disk, size=300, period=Period(first, last)) == everything


def test_a_damaged_record_does_not_hide_later_ones(disk: SimulatedDisk) -> None:
    offsets = record_offsets(disk)
    disk.overwrite(LOG / f"{0:020d}", offsets[3], b"\xff" * 8)
    remove_queues(disk)

    found = plan(disk, size=500)

    assert covered(found, dict.fromkeys(offsets, 0)) == offsets


def test_an_incomplete_last_record_is_left_out(disk: SimulatedDisk) -> None:
    offsets = record_offsets(disk)
    start = offsets[-1] - offsets[-1] % SEGMENT_SIZE
    disk.overwrite(LOG / f"{start:020d}", offsets[-1] - start + 6, bytes(200))
    remove_queues(disk)

    assert plan(disk)[-1].end == offsets[-1]


def test_a_path_without_a_log_is_refused(disk: SimulatedDisk) -> None:
    with pytest.raises(ConfigurationError, match=r"path '/elsewhere' holds no commit log: expected a store directory"):
        StoreFiles(Path("/elsewhere"), disk)


def test_a_log_with_a_file_missing_is_refused(disk: SimulatedDisk) -> None:
    disk.remove(LOG / f"{SEGMENT_SIZE:020d}")

    with pytest.raises(StoreDamaged, match=r"/store cannot be read: .* does not follow the file before it"):
        StoreFiles(ROOT, disk)


def covered(found: list[LogRange], offsets: dict[int, int]) -> list[int]:
    return sorted(offset for offset in offsets if any(log_range.start <= offset < log_range.end for log_range in found))


def remove_queues(disk: SimulatedDisk, *, except_of: str = "") -> None:
    for topic in disk.names(QUEUES):
        if topic == except_of:
            continue
        for queue in disk.names(QUEUES / topic):
            for name in disk.names(QUEUES / topic / queue):
                disk.remove(QUEUES / topic / queue / name)
