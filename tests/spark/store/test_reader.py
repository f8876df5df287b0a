"""Reading of records from commit log files: all valid ones, and nothing damaged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kerolox.spark.arrow.columns import Origin, to_batches
from kerolox.spark.schema import columns_named
from kerolox.spark.store import reader
from kerolox.spark.store.ranges import LogRange, StoreFiles, plan_ranges
from kerolox.spark.store.reader import read_blocks
from kerolox.store.check.dump import dump
from kerolox.store.log.scan import Damage
from kerolox.store.log.segments import Segments
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, ROOT, SEGMENT_SIZE, config, draft, opened, put, run, without_threads


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """Forty messages in several files, a few of them with properties longer than a sector."""
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(40):
        more = {"long": "x" * 600} if number % 10 == 5 else {}
        put(store, draft(b"%d" % number + b" " * 100, "ab"[number % 2], number // 2 % 2, 0, **more))
    run(store.close())
    return disk


def read(
    disk: SimulatedDisk, *, size: int = 10**6, chunk_size: int = 4096, **options: bool
) -> tuple[list[int], list[Damage]]:
    """Return the numbers of the messages that were read, and the damaged ranges."""
    files = StoreFiles(ROOT, disk)
    batches: list[pa.RecordBatch] = []
    damages: list[Damage] = []
    for log_range in plan_ranges(files, size=size):
        for found in read_blocks(files.log, log_range, Origin("a"), chunk_size=chunk_size, **options):
            if isinstance(found, Damage):
                damages.append(found)
            else:
                batches += to_batches(found, columns_named("body"))
    files.close()
    # Converted only now: blocks share their memory, which batches must not refer to.
    numbers = [int(body.split()[0]) for batch in batches for body in batch.column("body").to_pylist()]
    return numbers, damages


@pytest.mark.parametrize("size", [500, 10**6])
@pytest.mark.parametrize("chunk_size", [100, 700, 4096])
def test_every_record_is_read_once_and_in_order(disk: SimulatedDisk, size: int, chunk_size: int) -> None:
    """With any range size, and even if a record is longer than the buffer."""
    assert read(disk, size=size, chunk_size=chunk_size) == (list(range(40)), [])


def test_bytes_are_not_read_again_for_the_next_block(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small records, a block reaches its row limit long before the end of the buffer."""
    monkeypatch.setattr(reader, "_ROWS_MAX", 2)
    sizes: list[int] = []
    read_into = Segments.read_into

    def recording(log: Segments, offset: int, target: memoryview) -> memoryview:
        sizes.append(len(target))
        return read_into(log, offset, target)

    monkeypatch.setattr(Segments, "read_into", recording)
    whole = sum(log_range.end - log_range.start for log_range in plan_ranges(StoreFiles(ROOT, disk)))

    assert read(disk) == (list(range(40)), [])
    assert whole <= sum(sizes) < 2 * whole


def test_a_changed_byte_affects_no_other_record(disk: SimulatedDisk) -> None:
    """Change every byte of head and body of one record; other fields have no checksum."""
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


def test_a_changed_body_is_found_by_its_checksum_if_verified(disk: SimulatedDisk) -> None:
    disk.overwrite(LOG / f"{0:020d}", 100, b"7")

    numbers, damages = read(disk)

    assert numbers == list(range(1, 40))
    assert "CRC" in damages[0].reason
    assert read(disk, verify_crc=False)[0][1:] == list(range(1, 40))


@pytest.mark.parametrize("size", [200, 5000])
def test_a_changed_body_among_bodies_of_equal_size_is_found(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = opened(disk, config(mapped_file_size_commit_log=1 << 20))
    put(store, *[draft((b"%d " % number).ljust(size)) for number in range(100, 140)])
    run(store.close())
    offsets = [message.physical_offset for message in dump(config(mapped_file_size_commit_log=1 << 20), disk=disk)]

    assert read(disk, chunk_size=1 << 20) == (list(range(100, 140)), [])
    disk.overwrite(LOG / f"{0:020d}", offsets[25] + 88 + size - 1, b"x")

    numbers, damages = read(disk, chunk_size=1 << 20)

    assert numbers == [number for number in range(100, 140) if number != 125]
    assert [(damage.offset, damage.end_offset) for damage in damages] == [(offsets[25], offsets[26])]


def test_an_unwritten_sector_is_damage(disk: SimulatedDisk) -> None:
    messages = list(dump(config(), disk=disk))
    number = next(index for index, message in enumerate(messages) if len(message.properties) > 600)
    end = messages[number].physical_offset + len(messages[number].body) + 92 + len(messages[number].properties)
    start = end - end % SEGMENT_SIZE
    disk.overwrite(LOG / f"{start:020d}", end - start - 8, bytes(8))

    numbers, damages = read(disk)

    assert number not in numbers
    assert len(numbers) == 39
    assert len(damages) == 1


def test_damage_at_the_end_of_a_file_ends_with_the_range(disk: SimulatedDisk) -> None:
    in_first = [m for m in dump(config(), disk=disk) if m.physical_offset < SEGMENT_SIZE]
    disk.overwrite(LOG / f"{0:020d}", in_first[-1].physical_offset, bytes(8))

    numbers, damages = read(disk)

    assert len(numbers) == 39
    assert [(damage.offset, damage.end_offset) for damage in damages] == [(in_first[-1].physical_offset, SEGMENT_SIZE)]


def test_an_empty_range_has_no_records(disk: SimulatedDisk) -> None:
    files = StoreFiles(ROOT, disk)

    assert list(read_blocks(files.log, LogRange(0, 0), Origin())) == []
