"""Appending to the commit log."""

import errno
import struct

import pytest

from kerolox.message.record import BLANK_MAGIC, decode
from kerolox.store.log.commit_log import Appended, CommitLog, Draft
from kerolox.store.log.scan import Scan
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, SEGMENT_SIZE, batch, draft, draft_of_size, segments

NOW = 1_700_000_000_123


def new_log(disk: SimulatedDisk) -> CommitLog:
    return CommitLog(segments(disk))


def append(log: CommitLog, *drafts: Draft) -> list[Appended]:
    return log.append(drafts, range(len(drafts)), NOW)


def scanned(disk: SimulatedDisk) -> tuple[list[int], Scan]:
    found = segments(disk)
    found.load()
    scan = Scan(found)
    return [offset for _, offset in scan.records(0)], scan


def content(disk: SimulatedDisk, number: int) -> bytes:
    return disk.content(LOG / f"{number * SEGMENT_SIZE:020d}")


def test_a_record_learns_its_place_and_its_time() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft(b"one"))

    (place,) = log.append([draft(b"two", queue_id=3)], [77], NOW)

    message = decode(content(disk, 0), place.physical_offset, check_crc=True)
    assert (message.body, message.queue_id, message.queue_offset) == (b"two", 3, 77)
    assert (message.physical_offset, message.store_timestamp) == (place.physical_offset, NOW)
    assert place == Appended(100, 200, 77, NOW)


def test_many_records_take_one_write() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft())
    before = disk.counts["write"]

    places = append(log, *[draft(b"%d" % number) for number in range(30)])

    assert len(places) == 30
    assert disk.counts["write"] - before == 1


def test_records_for_two_files_take_a_write_for_each_and_one_for_the_blank() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)

    append(log, *[draft_of_size(1000) for _ in range(6)])

    assert disk.counts["write"] == 3
    assert scanned(disk)[0] == [0, 1000, 2000, 3000, 4096, 5096]


@pytest.mark.parametrize("left", range(8, 0, -1))
def test_a_record_that_leaves_no_room_for_a_blank_goes_to_the_next_file(left: int) -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(1000))

    (place,) = append(log, draft_of_size(SEGMENT_SIZE - 1000 - left))

    fits = left == 8
    assert place.physical_offset == (1000 if fits else SEGMENT_SIZE)
    (after,) = append(log, draft_of_size(200))
    assert after.physical_offset == (SEGMENT_SIZE if fits else place.end_offset)
    assert scanned(disk)[0] == [0, place.physical_offset, after.physical_offset]


def test_exactly_eight_bytes_at_the_end_are_a_blank() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)

    append(log, draft_of_size(SEGMENT_SIZE - 8), draft_of_size(100))

    assert content(disk, 0)[-8:] == struct.pack(">II", 8, BLANK_MAGIC)
    assert log.end_offset == SEGMENT_SIZE + 100


def test_a_blank_says_how_long_it_is_and_the_rest_stays_as_it_was() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)

    append(log, draft_of_size(1000), draft_of_size(4000))

    assert content(disk, 0)[1000:] == struct.pack(">II", 3096, BLANK_MAGIC) + bytes(3088)


def test_the_largest_draft_fills_a_file_of_4_kib() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    assert log.draft_size_max == 4088

    places = append(log, *[draft_of_size(4088) for _ in range(3)])

    assert [place.physical_offset for place in places] == [0, 4096, 8192]
    assert scanned(disk)[0] == [0, 4096, 8192]


def test_the_records_of_a_batch_stay_together_and_count_on() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(3500))

    (place,) = log.append([batch([b"a" * 100, b"b" * 100, b"c" * 100])], [5], NOW)

    assert place.physical_offset == SEGMENT_SIZE
    _, scan = scanned(disk)
    found = segments(disk)
    found.load()
    records = [record for record, _ in Scan(found).records(SEGMENT_SIZE)]
    assert [record.queue_offset for record in records] == [5, 6, 7]
    assert [record.physical_offset for record in records] == [4096, 4293, 4490]
    assert scan.end_offset == place.end_offset == log.end_offset


def test_without_room_for_the_next_file_fewer_places_come_back_and_nothing_is_half_claimed() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(2000))
    disk.fail("allocate", errno.ENOSPC)

    places = append(log, draft_of_size(1000), draft_of_size(2000))

    assert [place.physical_offset for place in places] == [2000]
    assert log.end_offset == 3000
    assert content(disk, 0)[3000:] == bytes(1096)
    with pytest.raises(OSError, match="No space left"):
        append(log, draft_of_size(2000))
    assert scanned(disk)[0] == [0, 2000]

    disk.heal()
    (place,) = append(log, draft_of_size(2000))
    assert place.physical_offset == SEGMENT_SIZE


def test_a_write_that_fails_in_the_second_file_keeps_the_places_in_the_first() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(2000))
    # The records, the blank, the records of the next file.
    disk.fail("write", errno.EIO, at=2, count=1)

    places = append(log, draft_of_size(1000), draft_of_size(2000))

    assert [place.physical_offset for place in places] == [2000]
    (place,) = append(log, draft_of_size(500))
    assert place.physical_offset == SEGMENT_SIZE


def test_a_blank_that_could_not_be_written_does_not_cost_a_file() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(2000))
    disk.fail("write", errno.EIO, count=1)

    with pytest.raises(OSError):
        append(log, draft_of_size(3000))
    (place,) = append(log, draft_of_size(3000))

    assert place.physical_offset == SEGMENT_SIZE
    assert scanned(disk)[0] == [0, SEGMENT_SIZE]
    assert len(disk.names(LOG)) == 2


def test_nothing_of_a_write_that_failed_is_found_behind_the_next() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft())
    disk.fail("write", errno.EIO, count=1)
    with pytest.raises(OSError):
        append(log, *[draft(b"refused") for _ in range(10)])

    append(log, draft(b"refuser"))

    offsets, scan = scanned(disk)
    assert offsets == [0, 101]
    assert (scan.damages, scan.torn) == ([], None)


def test_the_log_is_read_from_memory_and_from_files_alike() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(2000), draft_of_size(200))
    append(log, draft_of_size(3000), draft_of_size(150))

    whole = content(disk, 0) + content(disk, 1)
    for offset in (0, 1999, 2000, 2200, 4095, 4096, 7095, 7096, 7245):
        file_end = offset - offset % SEGMENT_SIZE + SEGMENT_SIZE
        for size in (1, 100, 10_000):
            assert log.read(offset, size) == whole[offset : min(offset + size, file_end, log.end_offset)]
    assert log.read(log.end_offset, 10) == log.read(log.end_offset + 5, 10) == b""


def test_after_loading_it_goes_on_at_the_end_that_was_found() -> None:
    disk = SimulatedDisk()
    append(new_log(disk), draft(), draft())
    found = segments(disk)
    found.load()
    log = CommitLog(found)

    log.load(202)
    append(log, draft())

    assert scanned(disk)[0] == [0, 101, 202]


def test_the_file_being_written_is_never_deleted() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, *[draft_of_size(3000) for _ in range(3)])

    assert log.delete_before(10**9) == 2

    assert log.first_offset == 2 * SEGMENT_SIZE
    append(log, draft_of_size(3000))
    assert log.read(2 * SEGMENT_SIZE, 4) == struct.pack(">i", 3000)


def test_what_was_written_last_is_gone_with_its_file() -> None:
    """The last bytes are kept in memory, and the disk may have had no room for those that should have followed."""
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(3000))
    disk.fail("write", errno.ENOSPC, at=1)
    with pytest.raises(OSError, match="No space"):
        append(log, draft_of_size(3000))
    disk.heal()

    assert log.delete_before(10**9) == 1

    assert log.read(0, 4) == b""
