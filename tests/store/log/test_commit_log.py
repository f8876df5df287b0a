"""CommitLog: appending, reading and deleting."""

import errno
import struct

import pytest

from kerolox.message.records.record import BLANK_MAGIC, BLANK_SIZE_MIN, decode
from kerolox.store.log.commit_log import Append, Appended, CommitLog
from kerolox.store.log.scan import Scan
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, SEGMENT_SIZE, batch, draft, draft_of_size, segments

NOW = 1_700_000_000_123


def new_log(disk: SimulatedDisk) -> CommitLog:
    return CommitLog(segments(disk))


def append(log: CommitLog, *appends: Append) -> list[Appended]:
    return log.append(appends, range(len(appends)), NOW)


def scanned(disk: SimulatedDisk) -> tuple[list[int], Scan]:
    found = segments(disk)
    found.load()
    scan = Scan(found)
    return [offset for _, offset in scan.records(0)], scan


def content(disk: SimulatedDisk, number: int) -> bytes:
    return disk.content(LOG / f"{number * SEGMENT_SIZE:020d}")


def test_append_stamps_offsets_and_store_timestamp() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft(b"one"))

    (appended,) = log.append([draft(b"two", queue_id=3)], [77], NOW)

    message = decode(content(disk, 0), appended.physical_offset, check_crc=True)
    assert (message.body, message.queue_id, message.queue_offset) == (b"two", 3, 77)
    assert (message.physical_offset, message.store_timestamp) == (appended.physical_offset, NOW)
    assert appended == Appended(100, 200, 77, NOW)


def test_many_records_take_one_write() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft())
    before = disk.counts["write"]

    positions = append(log, *[draft(b"%d" % number) for number in range(30)])

    assert len(positions) == 30
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

    (appended,) = append(log, draft_of_size(SEGMENT_SIZE - 1000 - left))

    fits = left == 8
    assert appended.physical_offset == (1000 if fits else SEGMENT_SIZE)
    (after,) = append(log, draft_of_size(200))
    assert after.physical_offset == (SEGMENT_SIZE if fits else appended.end_offset)
    assert scanned(disk)[0] == [0, appended.physical_offset, after.physical_offset]


def test_exactly_eight_bytes_at_the_end_become_a_blank() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)

    append(log, draft_of_size(SEGMENT_SIZE - 8), draft_of_size(100))

    assert content(disk, 0)[-8:] == struct.pack(">II", 8, BLANK_MAGIC)
    assert log.end_offset == SEGMENT_SIZE + 100


def test_a_blank_has_its_size_and_the_rest_of_the_file_stays_unchanged() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)

    append(log, draft_of_size(1000), draft_of_size(4000))

    assert content(disk, 0)[1000:] == struct.pack(">II", 3096, BLANK_MAGIC) + bytes(3088)


def test_the_largest_append_fills_a_file_of_4_kib() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    assert log.append_size_max == 4088

    positions = append(log, *[draft_of_size(4088) for _ in range(3)])

    assert [appended.physical_offset for appended in positions] == [0, 4096, 8192]
    assert scanned(disk)[0] == [0, 4096, 8192]


def test_records_of_a_batch_stay_together_with_consecutive_queue_offsets() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(3500))

    (appended,) = log.append([batch([b"a" * 100, b"b" * 100, b"c" * 100])], [5], NOW)

    assert appended.physical_offset == SEGMENT_SIZE
    _, scan = scanned(disk)
    found = segments(disk)
    found.load()
    records = [record for record, _ in Scan(found).records(SEGMENT_SIZE)]
    assert [record.queue_offset for record in records] == [5, 6, 7]
    assert [record.physical_offset for record in records] == [4096, 4293, 4490]
    assert scan.end_offset == appended.end_offset == log.end_offset


def test_without_space_for_the_next_file_only_what_fits_is_appended() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(2000))
    disk.fail("allocate", errno.ENOSPC)

    positions = append(log, draft_of_size(1000), draft_of_size(2000))

    assert [appended.physical_offset for appended in positions] == [2000]
    assert log.end_offset == 3000
    assert content(disk, 0)[3000:] == bytes(1096)
    with pytest.raises(OSError, match="No space left"):
        append(log, draft_of_size(2000))
    assert scanned(disk)[0] == [0, 2000]

    disk.heal()
    (appended,) = append(log, draft_of_size(2000))
    assert appended.physical_offset == SEGMENT_SIZE


def test_a_failed_write_in_the_second_file_keeps_what_was_appended_to_the_first() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(2000))
    # The records, the blank, the records of the next file.
    disk.fail("write", errno.EIO, at=2, count=1)

    positions = append(log, draft_of_size(1000), draft_of_size(2000))

    assert [appended.physical_offset for appended in positions] == [2000]
    (appended,) = append(log, draft_of_size(500))
    assert appended.physical_offset == SEGMENT_SIZE


def test_a_failed_write_of_a_blank_does_not_skip_a_file() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(2000))
    disk.fail("write", errno.EIO, count=1)

    with pytest.raises(OSError):
        append(log, draft_of_size(3000))
    (appended,) = append(log, draft_of_size(3000))

    assert appended.physical_offset == SEGMENT_SIZE
    assert scanned(disk)[0] == [0, SEGMENT_SIZE]
    assert len(disk.names(LOG)) == 2


def test_bytes_of_a_failed_write_are_not_found_after_the_next_write() -> None:
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


def test_reading_recent_bytes_from_memory_equals_reading_files() -> None:
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


def test_after_loading_appends_continue_at_the_given_end() -> None:
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


def test_the_copy_of_the_last_write_is_dropped_with_its_file() -> None:
    """The last write is kept in memory; it can be in a deleted file if the next write failed."""
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(3000))
    disk.fail("write", errno.ENOSPC, at=1)
    with pytest.raises(OSError, match="No space"):
        append(log, draft_of_size(3000))
    disk.heal()

    assert log.delete_before(10**9) == 1

    assert log.read(0, 4) == b""


def test_appends_have_room_up_to_the_blank_at_the_end_of_the_last_file() -> None:
    log = new_log(SimulatedDisk())
    append(log, draft_of_size(1000))
    room = SEGMENT_SIZE - BLANK_SIZE_MIN - 1000

    assert log.has_room(room)
    assert not log.has_room(room + 1)


def log_that_ends_with_a_file(disk: SimulatedDisk) -> CommitLog:
    """Return a log whose first file is filled with a blank; the next record could not be written."""
    log = new_log(disk)
    append(log, draft_of_size(3000))
    disk.fail("write", errno.ENOSPC, at=1)
    with pytest.raises(OSError, match="No space"):
        append(log, draft_of_size(3000))
    disk.heal()
    assert log.end_offset == SEGMENT_SIZE
    return log


def test_a_blank_after_the_last_write_is_read_from_the_file() -> None:
    log = log_that_ends_with_a_file(SimulatedDisk())

    assert log.read(3000, 8) == struct.pack(">II", SEGMENT_SIZE - 3000, BLANK_MAGIC)


def test_a_file_at_whose_end_the_log_ends_may_be_deleted() -> None:
    log = log_that_ends_with_a_file(SimulatedDisk())

    assert log.oldest(10) == [(SEGMENT_SIZE, LOG / f"{0:020d}")]


def test_the_last_write_is_read_from_memory_after_older_files_are_deleted() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, draft_of_size(3000))
    append(log, draft_of_size(3000))
    assert log.delete_before(SEGMENT_SIZE) == 1
    before = disk.counts["read"]

    assert log.read(SEGMENT_SIZE, 4) == struct.pack(">i", 3000)

    assert disk.counts["read"] == before


def test_without_a_failed_write_there_is_nothing_to_clear() -> None:
    disk = SimulatedDisk()

    new_log(disk).clear_stray()

    assert disk.operations == 0
