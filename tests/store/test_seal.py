"""The seal: what it remembers of the log, and when it counts."""

import pytest

from kerolox.store.log.segments import Segments
from kerolox.store.seal import Mark, Marks, Seal, decode
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, SEGMENT_SIZE, segments

SEAL = Seal(5000, 4001, 12, (1, 2, 3), [Mark(0, 4096, 7, 0xFFFFFFFF), Mark(4096, 5000, 5, 0)])


def written(disk: SimulatedDisk, files: int = 3) -> tuple[Segments, Marks]:
    log, marks = segments(disk), Marks(SEGMENT_SIZE)
    for number in range(files):
        start = number * SEGMENT_SIZE
        log.extend(start)
        for at in range(start, start + 300, 100):
            data = bytes([number + 1]) * 100
            log.write(at, data)
            marks.add(at, data, 1)
    return log, marks


def test_a_seal_is_read_as_it_was_written() -> None:
    assert decode(SEAL.encode()) == SEAL
    assert decode(SEAL.encode() + bytes(300)) == SEAL


def test_no_bit_of_a_seal_can_be_flipped() -> None:
    good = SEAL.encode()
    for at in range(len(good)):
        for bit in range(8):
            damaged = bytearray(good)
            damaged[at] ^= 1 << bit

            assert decode(bytes(damaged)) is None


@pytest.mark.parametrize("data", [b"", bytes(512), SEAL.encode()[:-1], SEAL.encode()[:40], b"KEROLOX1"])
def test_what_is_no_seal_is_none(data: bytes) -> None:
    assert decode(data) is None


def test_marks_are_of_the_last_three_files() -> None:
    log, marks = written(SimulatedDisk(), files=5)

    assert [(mark.start, mark.end, mark.records) for mark in marks.copy(log.first_offset)] == [
        (number * SEGMENT_SIZE, number * SEGMENT_SIZE + 300, 3) for number in (2, 3, 4)
    ]


def test_marks_that_do_not_begin_where_reading_would_are_none() -> None:
    marks = Marks(SEGMENT_SIZE)
    marks.add(SEGMENT_SIZE, b"x", 1)

    assert marks.copy(0) == []
    assert len(marks.copy(SEGMENT_SIZE)) == 1


@pytest.mark.parametrize("offset", [SEGMENT_SIZE + 99, SEGMENT_SIZE + 301, 3 * SEGMENT_SIZE + 1])
def test_what_does_not_follow_ends_all_marks(offset: int) -> None:
    log, marks = written(SimulatedDisk(), files=2)

    marks.add(offset, b"x", 1)

    assert marks.copy(log.first_offset) == []


def test_marks_are_unbroken_until_a_byte_of_theirs_changes() -> None:
    disk = SimulatedDisk()
    log, marks = written(disk)
    seal = Seal(0, 0, 0, (0, 0, 0), marks.copy(0))

    assert len(seal.unbroken(log, 0)) == 3
    log.write(SEGMENT_SIZE + 300, b"after what is marked")
    assert len(seal.unbroken(log, 0)) == 3
    log.write(SEGMENT_SIZE + 299, b"!")
    assert seal.unbroken(log, 0) == []
    # What would not be read anyway does not count.
    assert len(seal.unbroken(log, 2 * SEGMENT_SIZE)) == 1


def test_a_log_that_ends_before_its_marks_is_broken() -> None:
    disk = SimulatedDisk()
    _, marks = written(disk)
    seal = Seal(0, 0, 0, (0, 0, 0), marks.copy(0))
    disk.remove(LOG / f"{2 * SEGMENT_SIZE:020d}")
    again = segments(disk)
    again.load()

    assert seal.unbroken(again, 0) == []


def test_files_that_were_deleted_since_do_not_break_a_seal() -> None:
    disk = SimulatedDisk()
    log, marks = written(disk)
    seal = Seal(2 * SEGMENT_SIZE, 0, 0, (0, 0, 0), marks.copy(0))

    log.delete_before(SEGMENT_SIZE)

    assert len(seal.unbroken(log, 0)) == 2
    assert Seal(0, 0, 0, (0, 0, 0), seal.marks).unbroken(log, 0) == []
