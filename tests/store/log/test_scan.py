"""Scan: reading a commit log that may be damaged."""

import pytest

from kerolox.message.records.record import BLANK_MAGIC
from kerolox.store.log.commit_log import Append, CommitLog
from kerolox.store.log.scan import Damage, Scan
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, SEGMENT_SIZE, draft, draft_of_size, segments

FIRST = LOG / f"{0:020d}"
SECOND = LOG / f"{SEGMENT_SIZE:020d}"


def written(*appends: Append) -> SimulatedDisk:
    disk = SimulatedDisk()
    CommitLog(segments(disk)).append(appends, range(len(appends)), 1)
    return disk


def scan(disk: SimulatedDisk, start: int = 0) -> tuple[list[int], Scan]:
    found = segments(disk)
    found.load()
    made = Scan(found)
    return [offset for _, offset in made.records(start)], made


def three() -> tuple[SimulatedDisk, list[int]]:
    """Return a disk with three records, and their starts and ends."""
    disk = written(*[draft(b"body %d" % number, TAGS="red", KEYS="a b") for number in range(3)])
    size = int.from_bytes(disk.content(FIRST)[:4])
    return disk, [0, size, 2 * size, 3 * size]


def test_a_log_without_files_has_no_records() -> None:
    offsets, found = scan(SimulatedDisk())

    assert (offsets, found.end_offset, found.damages, found.torn) == ([], 0, [], None)


def test_all_records_are_found_across_blanks_and_files() -> None:
    disk = written(*[draft_of_size(size) for size in (1000, 3000, 2000, 4000, 100)])

    offsets, found = scan(disk)

    assert offsets == [0, 1000, 4096, 8192, 12288]
    assert (found.end_offset, found.damages, found.torn) == (12388, [], None)
    assert scan(disk, 4096)[0] == [4096, 8192, 12288]


def test_a_log_cut_at_any_byte_of_its_last_record_ends_before_it() -> None:
    disk, (_, _, last, end) = three()
    whole = disk.content(FIRST)
    for cut in range(last, end):
        disk.overwrite(FIRST, cut, bytes(end - cut))

        offsets, found = scan(disk)

        assert offsets == [0, last // 2], cut
        assert (found.end_offset, found.damages) == (last, [])
        rest = whole[last:cut].rstrip(b"\0")
        if rest:
            assert found.torn is not None
            assert (found.torn.offset, found.torn.end_offset) == (last, last + len(rest))
        else:
            assert found.torn is None
        disk.overwrite(FIRST, 0, whole)


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_in_the_middle_is_reported_or_affects_no_other_record(mask: int) -> None:
    """Only the body has a checksum: a changed timestamp or host is not detected, a changed offset or size is."""
    disk, (_, middle, last, end) = three()
    whole = disk.content(FIRST)
    unseen = 0
    for at in range(middle, last):
        disk.overwrite(FIRST, at, bytes([whole[at] ^ mask]))

        offsets, found = scan(disk)

        assert found.torn is None
        assert found.end_offset == end
        if offsets == [0, middle, last]:
            assert found.damages == []
            unseen += 1
        else:
            assert offsets == [0, last]
            assert [damage[:2] for damage in found.damages] == [(middle, last)]
        disk.overwrite(FIRST, at, whole[at : at + 1])
    body = whole.index(b"body 1")
    assert unseen < last - middle - len(b"body 1")
    for at in (middle, middle + 4, middle + 8, middle + 28, body, body + 5):
        disk.overwrite(FIRST, at, bytes([whole[at] ^ mask]))
        assert scan(disk)[0] == [0, last], at - middle
        disk.overwrite(FIRST, at, whole[at : at + 1])


def test_a_flipped_byte_of_the_last_record_ends_the_log_before_it_with_a_reason() -> None:
    disk, (_, _, last, end) = three()
    at = disk.content(FIRST).index(b"body 2")
    disk.overwrite(FIRST, at, b"B")

    offsets, found = scan(disk)

    assert offsets == [0, last // 2]
    assert found.end_offset == last
    assert found.torn is not None
    assert found.torn[:2] == (last, end)
    assert "CRC" in found.torn.reason


def test_zeros_after_the_last_record_are_not_damage() -> None:
    disk, (*_, end) = three()

    _, found = scan(disk)

    assert (found.end_offset, found.torn) == (end, None)


@pytest.mark.parametrize("garbage", [b"\1", b"garbage" * 30, b"\xda\xa3\x20\xa7" * 50, bytes(300) + b"x"])
def test_garbage_after_the_last_record_is_torn(garbage: bytes) -> None:
    disk, (*_, end) = three()
    disk.overwrite(FIRST, end, garbage)

    _, found = scan(disk)

    assert found.end_offset == end
    assert found.torn is not None
    assert found.torn[:2] == (end, end + len(garbage))


def test_each_damaged_range_between_valid_records_is_reported() -> None:
    disk = written(*[draft(b"%d" % number) for number in range(7)])
    size = 98
    for number in (1, 3, 4):
        disk.overwrite(FIRST, number * size, bytes(size))

    offsets, found = scan(disk)

    assert offsets == [number * size for number in (0, 2, 5, 6)]
    assert [damage[:2] for damage in found.damages] == [(98, 196), (294, 490)]
    assert (found.torn, found.end_offset) == (None, 7 * size)


def test_a_damaged_range_may_span_two_files() -> None:
    disk = written(draft_of_size(1000), draft_of_size(3000), draft_of_size(500), draft_of_size(500))
    disk.overwrite(FIRST, 1000, b"\xff" * 3096)
    disk.overwrite(SECOND, 0, b"\xff" * 500)

    offsets, found = scan(disk)

    assert offsets == [0, 4596]
    assert [damage[:2] for damage in found.damages] == [(1000, 4596)]


def test_a_lost_blank_does_not_hide_the_next_file() -> None:
    disk = written(draft_of_size(1000), draft_of_size(4000))
    disk.overwrite(FIRST, 1000, bytes(8))

    offsets, found = scan(disk)

    assert offsets == [0, 4096]
    assert [damage[:2] for damage in found.damages] == [(1000, 4096)]


def test_a_blank_at_the_end_of_the_last_file_ends_the_log_with_the_file() -> None:
    disk = written(draft_of_size(1000))
    disk.overwrite(FIRST, 1000, (3096).to_bytes(4) + BLANK_MAGIC.to_bytes(4))

    offsets, found = scan(disk)

    assert (offsets, found.end_offset, found.torn) == ([0], 4096, None)


@pytest.mark.parametrize("size", [0, 8, 3095, 3097, 2**32 - 1])
def test_a_blank_of_the_wrong_size_is_invalid(size: int) -> None:
    disk = written(draft_of_size(1000))
    disk.overwrite(FIRST, 1000, size.to_bytes(4) + BLANK_MAGIC.to_bytes(4))

    _, found = scan(disk)

    assert found.end_offset == 1000
    assert found.torn is not None


def test_bytes_after_a_blank_are_not_read() -> None:
    disk = written(draft_of_size(1000), draft_of_size(4000))
    disk.overwrite(FIRST, 1008, b"whatever" * 100)

    offsets, found = scan(disk)

    assert (offsets, found.damages, found.torn) == ([0, 4096], [], None)


def test_a_record_with_a_wrong_physical_offset_is_invalid() -> None:
    """Such a record may come from a body that contains a record, or from an old file copied over a new one."""
    disk = written(*[draft(b"%d" % number) for number in range(3)])
    old = disk.content(FIRST)[:98]
    disk.overwrite(FIRST, 98, old)

    offsets, found = scan(disk)

    assert offsets == [0, 196]
    assert found.damages == [Damage(98, 196, "a record with physical offset 0")]


def test_a_record_in_the_body_of_a_damaged_one_is_not_served() -> None:
    inner = bytes(draft(b"inner").records)
    disk = written(draft(b"first"), draft(inner), draft(b"last"))
    disk.overwrite(FIRST, 102 + 8, b"\xff")

    offsets, found = scan(disk)

    assert len(offsets) == 2
    assert len(found.damages) == 1


def test_properties_that_end_in_zeros_are_torn() -> None:
    disk = written(draft(b"a"), draft(b"b", KEYS="k" * 40))
    disk.overwrite(FIRST, disk.content(FIRST).index(b"kkkk") + 10, bytes(31))

    offsets, found = scan(disk)

    assert offsets == [0]
    assert found.torn is not None
    assert "zeros" in found.torn.reason


def test_a_topic_that_ends_in_zeros_is_torn() -> None:
    disk = written(draft(b"a"), draft(b"b", topic="parcels"))
    disk.overwrite(FIRST, disk.content(FIRST).index(b"parcels") + 3, bytes(4))

    offsets, found = scan(disk)

    assert offsets == [0]
    assert found.torn is not None
    assert "zeros" in found.torn.reason


def test_a_sector_of_zeros_in_the_properties_is_torn() -> None:
    disk = written(draft(b"a", KEYS="k" * 3000), draft(b"b"))
    assert scan(disk)[1].damages == []
    disk.overwrite(FIRST, 1024, bytes(512))

    offsets, found = scan(disk)

    assert len(offsets) == 1
    assert len(found.damages) == 1


def test_zeros_elsewhere_in_the_properties_are_valid() -> None:
    disk = written(draft(b"a", KEYS="k" + "\0" * 600 + "k"), draft(b"b"))

    offsets, found = scan(disk)

    assert (len(offsets), found.damages) == (2, [])


def test_records_larger_than_a_chunk_are_found() -> None:
    disk = SimulatedDisk()
    found = segments(disk, 4 * 1024 * 1024)
    appends = [draft_of_size(1_500_000), draft_of_size(2_000_000), draft_of_size(1_100_000)]
    CommitLog(found).append(appends, range(3), 1)
    made = Scan(found)

    assert [offset for _, offset in made.records(0)] == [0, 1_500_000, 4 * 1024 * 1024]

    disk.overwrite(FIRST, 1_500_000, b"\xff" * 100)
    again = Scan(found)
    assert [offset for _, offset in again.records(0)] == [0, 4 * 1024 * 1024]


def test_preallocated_space_is_not_read() -> None:
    disk = SimulatedDisk()
    size = 8 * 1024 * 1024
    made = segments(disk, size)
    CommitLog(made).append([draft()], [0], 1)
    for number in (1, 2):
        made.extend(number * size)
    disk.counts.clear()

    found = Scan(made)

    assert [offset for _, offset in found.records(0)] == [0]
    assert (found.end_offset, found.torn) == (len(draft().records), None)
    assert disk.counts["read"] <= 3


def test_a_record_after_an_unused_file_is_found() -> None:
    """The file in between was created and never used; the one after it has a record."""
    disk = written(draft_of_size(1000), *[draft_of_size(4000) for _ in range(3)])
    disk.overwrite(SECOND, 0, bytes(SEGMENT_SIZE))

    offsets, found = scan(disk)

    assert offsets == [0, 2 * SEGMENT_SIZE, 3 * SEGMENT_SIZE]
    assert [damage[:2] for damage in found.damages] == [(SEGMENT_SIZE, 2 * SEGMENT_SIZE)]
