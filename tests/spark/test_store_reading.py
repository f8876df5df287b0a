"""Records read from the files of a log: all that are good, and nothing of what is not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kerolox.spark import store_reading
from kerolox.spark.rows import Origin, batches_of
from kerolox.spark.schema import wanted_columns
from kerolox.spark.store_ranges import LogRange, StoreFiles, ranges
from kerolox.spark.store_reading import blocks
from kerolox.store.checking.dump import dump
from kerolox.store.log.scan import Damage
from kerolox.store.log.segments import Segments
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, ROOT, SEGMENT_SIZE, config, draft, opened, put, run, without_threads


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """Forty messages of several files, a few of them with properties longer than a sector."""
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(40):
        more = {"long": "x" * 600} if number % 10 == 5 else {}
        put(store, draft(b"%d" % number + b" " * 100, "ab"[number % 2], number // 2 % 2, **more))
    run(store.close())
    return disk


def read(
    disk: SimulatedDisk, *, size: int = 10**6, chunk_size: int = 4096, **options: bool
) -> tuple[list[int], list[Damage]]:
    """Returns the numbers of the messages that were read, and what was damaged."""
    files = StoreFiles(ROOT, disk)
    batches: list[pa.RecordBatch] = []
    damages: list[Damage] = []
    for place in ranges(files, size=size):
        for found in blocks(files.log, place, Origin("a"), chunk_size=chunk_size, **options):
            if isinstance(found, Damage):
                damages.append(found)
            else:
                batches += batches_of(found, wanted_columns("body"))
    files.close()
    # All of them only now: blocks are read to the same memory, and batches must not lie there.
    numbers = [int(body.split()[0]) for batch in batches for body in batch.column("body").to_pylist()]
    return numbers, damages


@pytest.mark.parametrize("size", [500, 10**6])
@pytest.mark.parametrize("chunk_size", [100, 700, 4096])
def test_every_record_is_read_once_and_in_order(disk: SimulatedDisk, size: int, chunk_size: int) -> None:
    """However the ranges are cut, and even where a record is longer than what is read at once."""
    assert read(disk, size=size, chunk_size=chunk_size) == (list(range(40)), [])


def test_what_was_read_is_not_read_again_for_the_next_block(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small records are more than a block has, long before they are as much as is read at once."""
    monkeypatch.setattr(store_reading, "_ROWS_MAX", 2)
    sizes: list[int] = []
    read_into = Segments.read_into

    def noted(log: Segments, offset: int, target: memoryview) -> memoryview:
        sizes.append(len(target))
        return read_into(log, offset, target)

    monkeypatch.setattr(Segments, "read_into", noted)
    whole = sum(place.end - place.start for place in ranges(StoreFiles(ROOT, disk)))

    assert read(disk) == (list(range(40)), [])
    assert whole <= sum(sizes) < 2 * whole


def test_every_byte_that_changes_costs_no_other_record(disk: SimulatedDisk) -> None:
    """Of the head and the body of one record; what is not covered by a checksum may change unseen."""
    (first, second, *_) = [message.physical_offset for message in dump(config(), disk=disk)]
    path = LOG / f"{0:020d}"
    whole = disk.read(path) or b""
    for at in range(second - first - 4):
        disk.overwrite(path, at, bytes([whole[at] ^ 0x5A]))
        numbers, damages = read(disk)
        assert numbers in (list(range(40)), list(range(1, 40)))
        if numbers[0]:
            assert [(damage.offset, damage.end_offset) for damage in damages] == [(first, second)]
        disk.overwrite(path, at, whole[at : at + 1])


def test_a_body_that_changed_is_found_by_its_checksum_unless_nobody_asks(disk: SimulatedDisk) -> None:
    disk.overwrite(LOG / f"{0:020d}", 100, b"7")

    numbers, damages = read(disk)

    assert numbers == list(range(1, 40))
    assert "CRC" in damages[0].reason
    assert read(disk, is_verified=False)[0][1:] == list(range(1, 40))


@pytest.mark.parametrize("size", [200, 5000])
def test_among_bodies_of_one_size_the_one_that_changed_is_found(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = opened(disk, config(mapped_file_size_commit_log=1 << 20))
    put(store, *[draft((b"%d " % number).ljust(size)) for number in range(100, 140)])
    run(store.close())
    places = [message.physical_offset for message in dump(config(mapped_file_size_commit_log=1 << 20), disk=disk)]

    assert read(disk, chunk_size=1 << 20) == (list(range(100, 140)), [])
    disk.overwrite(LOG / f"{0:020d}", places[25] + 88 + size - 1, b"x")

    numbers, damages = read(disk, chunk_size=1 << 20)

    assert numbers == [number for number in range(100, 140) if number != 125]
    assert [(damage.offset, damage.end_offset) for damage in damages] == [(places[25], places[26])]


def test_a_sector_that_never_reached_the_disk_is_damage(disk: SimulatedDisk) -> None:
    messages = list(dump(config(), disk=disk))
    number = next(index for index, message in enumerate(messages) if len(message.properties) > 600)
    end = messages[number].physical_offset + len(messages[number].body) + 92 + len(messages[number].properties)
    start = end - end % SEGMENT_SIZE
    disk.overwrite(LOG / f"{start:020d}", end - start - 8, bytes(8))

    numbers, damages = read(disk)

    assert number not in numbers
    assert len(numbers) == 39
    assert len(damages) == 1


def test_a_damage_at_the_end_of_a_file_ends_with_the_range(disk: SimulatedDisk) -> None:
    in_first = [m for m in dump(config(), disk=disk) if m.physical_offset < SEGMENT_SIZE]
    disk.overwrite(LOG / f"{0:020d}", in_first[-1].physical_offset, bytes(8))

    numbers, damages = read(disk)

    assert len(numbers) == 39
    assert [(damage.offset, damage.end_offset) for damage in damages] == [(in_first[-1].physical_offset, SEGMENT_SIZE)]


def test_a_range_that_is_empty_gives_nothing(disk: SimulatedDisk) -> None:
    files = StoreFiles(ROOT, disk)

    assert list(blocks(files.log, LogRange(0, 0), Origin())) == []
