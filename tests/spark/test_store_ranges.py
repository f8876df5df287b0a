"""Ranges of a log: each begins with a record, together they are all of it, and none goes beyond what is durable."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError
from kerolox.spark.store_ranges import LogRange, Period, StoreFiles, range_size, ranges
from kerolox.store.checking.dump import dump
from kerolox.store.errors import StoreDamaged
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, ROOT, SEGMENT_SIZE, StillClock, config, draft, opened, put, run, without_threads

QUEUES = ROOT / "consumequeue"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """Forty messages in two topics and several files, a second between them; a store that was closed."""
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


def places(disk: SimulatedDisk) -> list[int]:
    return [message.physical_offset for message in dump(config(), disk=disk)]


def planned(disk: SimulatedDisk, path: Path = ROOT, **options: object) -> list[LogRange]:
    files = StoreFiles(path, disk)
    try:
        return ranges(files, **options)  # type: ignore[arg-type]
    finally:
        files.close()


@pytest.mark.parametrize("size", [300, 1000, 2048, 10**6])
@pytest.mark.parametrize("has_queues", [True, False])
def test_ranges_are_all_of_the_log_and_begin_with_records(disk: SimulatedDisk, size: int, has_queues: bool) -> None:
    if not has_queues:
        remove_queues(disk)
    offsets = places(disk)

    found = planned(disk, size=size)

    assert all(place.start in offsets for place in found)
    assert [offset for offset in offsets if any(place.start <= offset < place.end for place in found)] == offsets
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))
    assert all(one.start // SEGMENT_SIZE == (one.end - 1) // SEGMENT_SIZE for one in found)
    if size == 10**6:
        assert [place.start for place in found] == list(range(0, max(offsets) + 1, SEGMENT_SIZE))
    else:
        assert len(found) > max(offsets) // SEGMENT_SIZE + 1


@pytest.mark.parametrize("left", ["a", "b"])
def test_what_only_some_queues_know_is_read_too(disk: SimulatedDisk, left: str) -> None:
    offsets = places(disk)
    remove_queues(disk, except_of=left)

    assert covered(planned(disk, size=1000), dict.fromkeys(offsets, 0)) == offsets


def test_an_entry_of_a_record_that_is_not_there_is_not_gone_by(disk: SimulatedDisk) -> None:
    offsets = places(disk)
    queue = QUEUES / "a" / "0"
    (*_, last) = disk.names(queue)
    # Of the first entry that is not written the record would lie far behind the others.
    content = disk.content(queue / last)
    at = next(at for at in range(0, len(content), 20) if not any(content[at : at + 20]))
    disk.overwrite(queue / last, at, struct.pack(">qiq", offsets[-1] + 1000, 300, 0))

    assert covered(planned(disk, size=1000), dict.fromkeys(offsets, 0)) == offsets


def test_each_core_has_a_range_if_that_is_worth_it_and_none_is_huge() -> None:
    mib = 1024 * 1024

    assert range_size(600 * mib, 2) == 300 * mib
    assert range_size(40 * mib, 8) == 32 * mib
    assert range_size(10_000 * mib, 2) == 512 * mib
    assert range_size(10_000 * mib, 2, has_period=True) == 128 * mib


def test_a_directory_of_the_log_alone_is_enough(disk: SimulatedDisk) -> None:
    offsets = places(disk)

    assert covered(planned(disk, LOG, size=1000), dict.fromkeys(offsets, 0)) == offsets


def test_ranges_end_with_the_last_record(disk: SimulatedDisk) -> None:
    *_, last = dump(config(), disk=disk)

    assert planned(disk)[-1].end > last.physical_offset
    assert planned(disk)[-1].end - last.physical_offset < 400


def test_what_is_not_durable_yet_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    fill(disk, is_closed=False)
    times = {message.physical_offset: message.store_timestamp for message in dump(config(), disk=disk)}
    durable = sorted(times.values())[24]
    disk.write(ROOT / "checkpoint", struct.pack(">qq", durable, durable).ljust(4096, b"\0"))

    found = planned(disk, size=1000)
    unflushed = planned(disk, size=1000, is_unflushed_read=True)

    assert covered(found, times) == sorted(offset for offset, time in times.items() if time <= durable)
    assert covered(unflushed, times) == sorted(times)


def test_of_a_store_at_work_without_a_checkpoint_nothing_is_known_to_be_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    fill(disk, is_closed=False)
    if disk.read(ROOT / "checkpoint") is not None:
        disk.remove(ROOT / "checkpoint")

    assert covered(planned(disk), dict.fromkeys(places(disk), 0)) == []


def test_only_ranges_of_the_period_are_read(disk: SimulatedDisk) -> None:
    times = {message.physical_offset: message.store_timestamp for message in dump(config(), disk=disk)}
    everything = planned(disk, size=300)
    minute = 60_000
    first, last = min(times.values()), max(times.values())

    assert planned(disk, size=300, period=Period(first - 5 * minute, first - 2 * minute)) == []
    assert planned(disk, size=300, period=Period(last + 10 * minute)) == everything[-1:]
    assert planned(disk, size=300, period=Period(first, last)) == everything


def test_a_record_that_is_damaged_does_not_hide_those_after_it(disk: SimulatedDisk) -> None:
    offsets = places(disk)
    disk.overwrite(LOG / f"{0:020d}", offsets[3], b"\xff" * 8)
    remove_queues(disk)

    found = planned(disk, size=500)

    assert covered(found, dict.fromkeys(offsets, 0)) == offsets


def test_a_log_that_ends_with_half_a_record_ends_before_it(disk: SimulatedDisk) -> None:
    offsets = places(disk)
    start = offsets[-1] - offsets[-1] % SEGMENT_SIZE
    disk.overwrite(LOG / f"{start:020d}", offsets[-1] - start + 6, bytes(200))
    remove_queues(disk)

    assert planned(disk)[-1].end == offsets[-1]


def test_a_path_without_a_log_is_refused(disk: SimulatedDisk) -> None:
    with pytest.raises(ConfigurationError, match=r"path '/elsewhere' holds no commit log: expected a store directory"):
        StoreFiles(Path("/elsewhere"), disk)


def test_a_log_with_a_file_missing_is_refused(disk: SimulatedDisk) -> None:
    disk.remove(LOG / f"{SEGMENT_SIZE:020d}")

    with pytest.raises(StoreDamaged, match=r"/store cannot be read: .* does not follow the file before it"):
        StoreFiles(ROOT, disk)


def covered(found: list[LogRange], offsets: dict[int, int]) -> list[int]:
    return sorted(offset for offset in offsets if any(place.start <= offset < place.end for place in found))


def remove_queues(disk: SimulatedDisk, *, except_of: str = "") -> None:
    for topic in disk.names(QUEUES):
        if topic == except_of:
            continue
        for queue in disk.names(QUEUES / topic):
            for name in disk.names(QUEUES / topic / queue):
                disk.remove(QUEUES / topic / queue / name)
