"""The checkpoint file."""

import struct
from pathlib import Path

import pytest

from kerolox.runtime.files import RealDisk
from kerolox.store.recovery.checkpoint import Checkpoint
from tests.store.disks import Stopped
from tests.store.fragile_disk import FragileDisk

PATH = Path("/store/checkpoint")
# As written by Java brokers that were stopped after 200 messages; the rest of the 4096 bytes are zeros.
JAVA = {
    "4.9.7": "000001a1e13951b9000001a1e13951b9",
    "5.5.0": "000001a1e13a1955",
}


def loaded(content: bytes | None) -> Checkpoint:
    checkpoint = Checkpoint(FragileDisk({} if content is None else {PATH: content}), PATH)
    checkpoint.load()
    return checkpoint


def filled(disk: FragileDisk) -> Checkpoint:
    checkpoint = Checkpoint(disk, PATH)
    checkpoint.load()
    checkpoint.log_timestamp = 1
    checkpoint.queues_timestamp = 2
    checkpoint.index_timestamp = 3
    checkpoint.master_flushed_offset = 4
    checkpoint.confirmed_offset = 5
    checkpoint.queues_physical_offset = 6
    return checkpoint


def test_checkpoints_of_java_are_read() -> None:
    old = loaded(bytes.fromhex(JAVA["4.9.7"]).ljust(4096, b"\0"))
    new = loaded(bytes.fromhex(JAVA["5.5.0"]).ljust(4096, b"\0"))

    assert (old.log_timestamp, old.queues_timestamp, old.index_timestamp) == (1794779992505, 1794779992505, 0)
    assert (new.log_timestamp, new.queues_timestamp, new.confirmed_offset) == (1794780043605, 0, 0)


def test_the_file_has_4096_bytes_and_six_numbers() -> None:
    disk = FragileDisk()

    filled(disk).flush()

    assert disk.files == {PATH: struct.pack(">6q", 1, 2, 3, 4, 5, 6).ljust(4096, b"\0")}


def test_flushed_fields_are_durable() -> None:
    disk = FragileDisk()
    filled(disk).flush()

    for left in disk.left_by_power_cut():
        again = loaded(left[PATH])
        assert (again.log_timestamp, again.queues_timestamp, again.index_timestamp) == (1, 2, 3)
        assert (again.master_flushed_offset, again.confirmed_offset, again.queues_physical_offset) == (4, 5, 6)


def test_fields_of_later_versions_are_kept() -> None:
    disk = FragileDisk({PATH: bytes(48) + b"later".ljust(4048, b"\0")})

    filled(disk).flush()

    assert disk.files[PATH][48:53] == b"later"


@pytest.mark.parametrize("content", [None, b"", bytes(3)])
def test_a_missing_or_short_file_counts_as_zeros(content: bytes | None) -> None:
    checkpoint = loaded(content)

    assert (checkpoint.log_timestamp, checkpoint.min_timestamp) == (0, 0)


def test_the_fields_of_a_short_file_are_read() -> None:
    checkpoint = loaded(struct.pack(">qq", 10_000, 20_000))

    assert (checkpoint.log_timestamp, checkpoint.queues_timestamp, checkpoint.index_timestamp) == (10_000, 20_000, 0)


def test_a_short_file_is_extended() -> None:
    disk = FragileDisk({PATH: struct.pack(">qq", 10_000, 20_000)})

    filled(disk).flush()

    assert len(disk.files[PATH]) == 4096


@pytest.mark.parametrize(
    ("log", "queues", "index", "expected"),
    [
        (10_000, 9_000, 8_000, 6_000),
        (9_000, 10_000, 5_000, 6_000),
        (10_000, 2_000, 8_000, 0),
        (10_000, 10_000, 0, 7_000),
    ],
)
def test_min_timestamp_is_the_smaller_of_log_and_queues_less_three_seconds(
    log: int, queues: int, index: int, expected: int
) -> None:
    assert loaded(struct.pack(">qqq", log, queues, index)).min_timestamp == expected


@pytest.mark.parametrize("operations", range(8))
def test_a_stop_after_any_operation_leaves_old_or_new_fields(operations: int) -> None:
    disk = FragileDisk(operations=operations)
    checkpoint = filled(disk)

    try:
        checkpoint.flush()
        checkpoint.index_timestamp = 30
        checkpoint.flush()
    except Stopped:
        pass

    for left in (disk.files, *disk.left_by_power_cut()):
        assert loaded(left.get(PATH)).index_timestamp in {0, 3, 30}


def test_flushed_fields_are_read_from_a_real_disk(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = Checkpoint(RealDisk(), path)
    checkpoint.load()
    for timestamp in (1, 2, 3):
        checkpoint.log_timestamp = timestamp
        checkpoint.flush()
    checkpoint.close()

    again = Checkpoint(RealDisk(), path)
    again.load()

    assert again.log_timestamp == 3
    assert path.stat().st_size == 4096
