"""Log checksums: which files they cover, and when they are valid."""

import pytest

from kerolox.store.log.segments import Segments
from kerolox.store.recovery.log_checksums import FileChecksum, FileChecksums, LogChecksums, decode
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, SEGMENT_SIZE, segments

SAVED = LogChecksums(5000, 4001, 12, (1, 2, 3), [FileChecksum(0, 4096, 7, 0xFFFFFFFF), FileChecksum(4096, 5000, 5, 0)])


def written(disk: SimulatedDisk, files: int = 3) -> tuple[Segments, FileChecksums]:
    log, checksums = segments(disk), FileChecksums(SEGMENT_SIZE)
    for number in range(files):
        start = number * SEGMENT_SIZE
        log.extend(start)
        for at in range(start, start + 300, 100):
            data = bytes([number + 1]) * 100
            log.write(at, data)
            checksums.add(at, data, 1)
    return log, checksums


def test_checksums_survive_encoding() -> None:
    assert decode(SAVED.encode()) == SAVED
    assert decode(SAVED.encode() + bytes(300)) == SAVED


def test_any_flipped_bit_makes_the_checksums_invalid() -> None:
    good = SAVED.encode()
    for at in range(len(good)):
        for bit in range(8):
            damaged = bytearray(good)
            damaged[at] ^= 1 << bit

            assert decode(bytes(damaged)) is None


@pytest.mark.parametrize("data", [b"", bytes(512), SAVED.encode()[:-1], SAVED.encode()[:40], b"KEROLOX1"])
def test_other_data_does_not_decode(data: bytes) -> None:
    assert decode(data) is None


def test_checksums_cover_the_last_three_files() -> None:
    log, checksums = written(SimulatedDisk(), files=5)

    assert [(checksum.start, checksum.end, checksum.records) for checksum in checksums.copy(log.first_offset)] == [
        (number * SEGMENT_SIZE, number * SEGMENT_SIZE + 300, 3) for number in (2, 3, 4)
    ]


def test_checksums_that_do_not_cover_the_first_file_read_are_not_used() -> None:
    checksums = FileChecksums(SEGMENT_SIZE)
    checksums.add(SEGMENT_SIZE, b"x", 1)

    assert checksums.copy(0) == []
    assert len(checksums.copy(SEGMENT_SIZE)) == 1


@pytest.mark.parametrize("offset", [SEGMENT_SIZE + 99, SEGMENT_SIZE + 301, 3 * SEGMENT_SIZE + 1])
def test_data_that_is_not_contiguous_drops_all_checksums(offset: int) -> None:
    log, checksums = written(SimulatedDisk(), files=2)

    checksums.add(offset, b"x", 1)

    assert checksums.copy(log.first_offset) == []


def test_checksums_match_until_a_covered_byte_changes() -> None:
    disk = SimulatedDisk()
    log, checksums = written(disk)
    saved = LogChecksums(0, 0, 0, (0, 0, 0), checksums.copy(0))

    assert len(saved.verified(log, 0)) == 3
    log.write(SEGMENT_SIZE + 300, b"not covered")
    assert len(saved.verified(log, 0)) == 3
    log.write(SEGMENT_SIZE + 299, b"!")
    assert saved.verified(log, 0) == []
    # Files that recovery would not read are not compared.
    assert len(saved.verified(log, 2 * SEGMENT_SIZE)) == 1


def test_a_log_that_ends_before_its_checksums_does_not_match() -> None:
    disk = SimulatedDisk()
    _, checksums = written(disk)
    saved = LogChecksums(0, 0, 0, (0, 0, 0), checksums.copy(0))
    disk.remove(LOG / f"{2 * SEGMENT_SIZE:020d}")
    again = segments(disk)
    again.load()

    assert saved.verified(again, 0) == []


def test_deleting_files_keeps_the_other_checksums_valid() -> None:
    disk = SimulatedDisk()
    log, checksums = written(disk)
    saved = LogChecksums(2 * SEGMENT_SIZE, 0, 0, (0, 0, 0), checksums.copy(0))

    log.delete_before(SEGMENT_SIZE)

    assert len(saved.verified(log, 0)) == 2
    assert LogChecksums(0, 0, 0, (0, 0, 0), saved.checksums).verified(log, 0) == []
