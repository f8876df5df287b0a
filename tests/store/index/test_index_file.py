"""IndexFile: bytes, chains, flushing, and recovery after a crash."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from kerolox.store.errors import StoreDamaged, SyncFailed
from kerolox.store.index.index_file import IndexFile, WrongShape
from kerolox.store.index.key_index import KeySearch
from kerolox.store.index.layout import ENTRY, HEADER, SLOT, IndexHeader, IndexShape
from kerolox.store.log.segments import OpenFiles
from tests.store.fragile_disk import FragileDisk
from tests.store.index_cases import BEGIN

PATH = Path("/store/index/20261115215951456")
SHAPE = IndexShape(slots=5, entries=10)
FOREVER = 2**62


def created(disk: FragileDisk, *puts: tuple[int, int, int], shape: IndexShape = SHAPE) -> IndexFile:
    """Return a file with entries of hash, physical offset and timestamp."""
    disk.make_directory(PATH.parent)
    file = IndexFile.create(OpenFiles(disk, 10), PATH, shape, IndexHeader())
    for put in puts:
        assert file.put([put[0]], *put[1:]) == 1
    return file


def written(*puts: tuple[int, int, int]) -> bytearray:
    """Return the bytes of a file with these entries."""
    disk = FragileDisk()
    flush = created(disk, *puts).flush()
    assert flush is not None
    flush.run()
    return bytearray(disk.files[PATH])


def opened(content: bytes | bytearray) -> IndexFile:
    return IndexFile.open(OpenFiles(FragileDisk({PATH: bytes(content)}), 10), PATH, SHAPE)


def found(file: IndexFile, key_hash: int) -> list[int]:
    return found_between(file, key_hash, 64, 0, FOREVER)


def found_between(
    file: IndexFile, key_hash: int, count_max: int, begin_timestamp: int, end_timestamp: int
) -> list[int]:
    search = KeySearch([file], key_hash, count_max, (begin_timestamp, end_timestamp))
    while search.step():
        pass
    return search.found


def with_entry(content: bytearray, number: int, entry: tuple[int, int, int, int]) -> bytearray:
    content = bytearray(content)
    ENTRY.pack_into(content, SHAPE.entries_position + number * ENTRY.size, *entry)
    return content


def with_slot(content: bytearray, slot: int, number: int) -> bytearray:
    content = bytearray(content)
    SLOT.pack_into(content, HEADER.size + slot * SLOT.size, number)
    return content


# Layout


def test_a_file_with_the_default_settings_has_420_000_040_bytes() -> None:
    assert IndexShape().file_size == 420_000_040


def test_the_layout_is_header_slots_entries() -> None:
    content = written((7, 100, BEGIN), (12, 300, BEGIN + 2500), (3, 300, BEGIN + 2500))

    assert HEADER.unpack_from(content) == (BEGIN, BEGIN + 2500, 100, 300, 2, 4)
    assert list(SLOT.iter_unpack(content[40:60])) == [(0,), (0,), (2,), (3,), (0,)]
    entries = list(ENTRY.iter_unpack(content[60:]))
    assert entries[:4] == [(0, 0, 0, 0), (7, 100, 0, 0), (12, 300, 2, 1), (3, 300, 2, 0)]
    assert content[60 + 4 * 20 :] == bytes(6 * 20)
    assert len(content) == SHAPE.file_size


def test_a_file_is_full_one_entry_before_its_number_of_entries() -> None:
    """Java numbers entries from 1 and treats a file as full when the next number equals the number of entries."""
    file = created(FragileDisk(), *((1, offset, BEGIN) for offset in range(9)))

    assert file.is_full
    assert found(file, 1) == list(range(8, -1, -1))


# Chains


def test_the_newest_entry_comes_first_and_other_hashes_in_the_slot_are_skipped() -> None:
    file = created(FragileDisk(), (7, 100, BEGIN), (12, 200, BEGIN), (7, 300, BEGIN), (2, 400, BEGIN))

    assert found(file, 7) == [300, 100]
    assert found(file, 12) == [200]
    assert found(file, 17) == []


def test_at_most_count_max_entries_are_found() -> None:
    file = created(FragileDisk(), *((7, offset, BEGIN) for offset in range(6)))

    assert found_between(file, 7, 2, 0, FOREVER) == [5, 4]
    assert found_between(file, 7, 0, 0, FOREVER) == []


def test_times_are_compared_by_the_second() -> None:
    file = created(FragileDisk(), (7, 1, BEGIN), (7, 2, BEGIN + 1999), (7, 3, BEGIN + 5000))

    assert found_between(file, 7, 64, BEGIN + 1000, BEGIN + 1000) == [2]
    assert found_between(file, 7, 64, BEGIN + 1001, BEGIN + 4999) == []
    assert found_between(file, 7, 64, BEGIN + 1000, BEGIN + 5000) == [3, 2]
    assert found_between(file, 7, 64, BEGIN, BEGIN) == [1]


@pytest.mark.parametrize("is_written", [False, True])
def test_entries_are_found_in_memory_and_on_the_disk(is_written: bool) -> None:
    chance = random.Random(1)
    shape = IndexShape(slots=50, entries=3000)
    puts = [(chance.randrange(200), offset, BEGIN) for offset in range(2999)]
    disk = FragileDisk()
    file = created(disk, *puts, shape=shape)
    if is_written:
        flush = file.flush()
        assert flush is not None
        flush.run()
        assert file.release_slots()

    for key_hash in range(200):
        expected = [offset for put_hash, offset, _ in reversed(puts) if put_hash == key_hash]
        assert found_between(file, key_hash, 3000, 0, FOREVER) == expected


def test_a_chain_continues_from_memory_to_disk() -> None:
    file = created(FragileDisk(), (7, 1, BEGIN), (7, 2, BEGIN))
    file.write_entries()
    file.put([7], 3, BEGIN)

    assert len(file.pending) == ENTRY.size
    assert found(file, 7) == [3, 2, 1]


@pytest.mark.parametrize("previous", [3, 4, 9, 2**31 - 1, -1])
def test_a_chain_ends_where_it_does_not_lead_to_an_older_entry(previous: int) -> None:
    content = written((7, 1, BEGIN), (7, 2, BEGIN), (7, 3, BEGIN))

    assert found(opened(with_entry(content, 3, (7, 3, 0, previous))), 7) == [3]


def test_a_circular_chain_ends() -> None:
    content = written((7, 1, BEGIN), (7, 2, BEGIN), (7, 3, BEGIN))

    assert found(opened(with_entry(content, 1, (7, 1, 0, 3))), 7) == [3, 2, 1]


def test_a_chain_ends_at_a_negative_time_as_in_java() -> None:
    content = written((7, 1, BEGIN), (7, 2, BEGIN), (7, 3, BEGIN))

    assert found(opened(with_entry(content, 2, (7, 2, -1, 1))), 7) == [3]


@pytest.mark.parametrize("number", [4, 10, 2**31 - 1, -5])
def test_a_slot_with_an_invalid_entry_number_is_empty(number: int) -> None:
    file = opened(with_slot(written((7, 1, BEGIN), (7, 2, BEGIN), (7, 3, BEGIN)), 2, number))

    assert found(file, 7) == []

    file.grow()
    file.put([7], 4, BEGIN)
    assert found(file, 7) == [4]


# Opening


def test_a_reopened_file_has_its_entries_and_can_grow() -> None:
    disk = FragileDisk({PATH: bytes(written((7, 1, BEGIN), (3, 2, BEGIN + 1000)))})
    file = IndexFile.open(OpenFiles(disk, 10), PATH, SHAPE)
    file.grow()

    file.put([7], 3, BEGIN + 2000)
    flush = file.flush()
    assert flush is not None
    flush.run()

    assert disk.files[PATH] == written((7, 1, BEGIN), (3, 2, BEGIN + 1000), (7, 3, BEGIN + 2000))


@pytest.mark.parametrize("size", [0, 39, SHAPE.file_size - 1, SHAPE.file_size + 1])
def test_a_file_of_the_wrong_size_is_rejected(size: int) -> None:
    content = written((7, 1, BEGIN)).ljust(size, b"\0")[:size]

    with pytest.raises(WrongShape, match="maxHashSlotNum=5 and maxIndexNum=10 make 260"):
        opened(content)


@pytest.mark.parametrize(
    "header",
    [(BEGIN, BEGIN, 0, 0, 0, 11), (BEGIN, BEGIN, 0, 0, 0, -1), (BEGIN, BEGIN, 5, 4, 1, 2), (BEGIN, BEGIN, -1, 4, 1, 2)],
)
def test_an_impossible_header_is_damage(header: tuple[int, ...]) -> None:
    content = bytearray(SHAPE.file_size)
    HEADER.pack_into(content, 0, *header)

    with pytest.raises(StoreDamaged, match="impossible header"):
        opened(content)


def test_a_file_that_java_created_and_never_used_is_empty() -> None:
    assert opened(bytes(SHAPE.file_size)).header == IndexHeader(next_entry=1)


def test_without_space_for_the_slots_no_file_is_left() -> None:
    disk = FragileDisk({PATH.parent / "other": b""})
    disk.fail("allocate", errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        created(disk)

    assert list(disk.files) == [PATH.parent / "other"]


# Flushing


def test_flushed_slots_are_not_newer_than_the_header() -> None:
    """Java treats a slot as empty if it refers to an entry beyond the header, and loses all its keys."""
    disk = FragileDisk()
    file = created(disk, (7, 1, BEGIN), (8, 2, BEGIN))
    flush = file.flush()
    assert flush is not None
    file.put([7, 9], 3, BEGIN)
    file.write_entries()

    flush.run()

    content = disk.content(PATH)
    assert IndexHeader.decode(content[: HEADER.size]).next_entry == 3
    slots = [number for (number,) in SLOT.iter_unpack(content[HEADER.size : SHAPE.entries_position])]
    assert sorted(slots)[-2:] == [1, 2]
    again = file.flush()
    assert again is not None
    again.run()
    assert found_between(file, 7, 10, 0, 2**62) == [3, 1]
    content = disk.content(PATH)
    assert max(number for (number,) in SLOT.iter_unpack(content[HEADER.size : SHAPE.entries_position])) == 4


def test_the_header_is_written_after_its_entries_are_durable() -> None:
    disk = FragileDisk()
    file = created(disk, (7, 1, BEGIN))
    disk.log.clear()

    flush = file.flush()
    assert flush is not None
    flush.run()

    name = PATH.name
    assert disk.log == [
        f"write {name}",  # entries
        "sync index",
        f"sync {name}",
        f"write {name}",  # slots
        f"write {name}",  # header
        f"sync {name}",
    ]
    assert file.flush() is None


def test_distant_slots_are_written_without_those_in_between() -> None:
    disk = FragileDisk()
    file = created(disk, (0, 1, BEGIN), (5_000, 2, BEGIN), (99_999, 3, BEGIN), shape=IndexShape(100_000, 10))
    disk.log.clear()

    flush = file.flush()
    assert flush is not None
    flush.run()

    assert sum(what.startswith("write") for what in disk.log) == 1 + 3 + 1


def test_entries_put_during_a_flush_are_written_by_the_next() -> None:
    disk = FragileDisk()
    file = created(disk, (7, 1, BEGIN))
    flush = file.flush()
    assert flush is not None
    file.put([3], 2, BEGIN)

    flush.run()
    assert HEADER.unpack_from(disk.files[PATH])[5] == 2
    flush = file.flush()
    assert flush is not None
    flush.run()

    assert disk.files[PATH] == written((7, 1, BEGIN), (3, 2, BEGIN))


def test_a_failed_flush_is_repeated_by_the_next() -> None:
    disk = FragileDisk()
    file = created(disk, (7, 1, BEGIN))
    flush = file.flush()
    assert flush is not None
    disk.fail("write", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        flush.run()
    assert not file.release_slots()
    disk.heal()

    flush = file.flush()
    assert flush is not None
    flush.run()

    assert disk.files[PATH] == written((7, 1, BEGIN))
    assert file.release_slots()


@pytest.mark.parametrize("at", range(3))
def test_a_failed_sync_is_final(at: int) -> None:
    """A failed sync of the directory, the entries or the header leaves unknown what is durable."""
    disk = FragileDisk()
    file = created(disk, (7, 1, BEGIN))
    disk.fail("sync", errno.EIO, at=at, count=1)
    flush = file.flush()
    assert flush is not None

    for _ in range(2):
        with pytest.raises(SyncFailed, match="Input/output"):
            flush.run()
        again = file.flush()
        assert again is not None
        flush = again

    assert not file.release_slots()
    assert found_between(file, 7, 10, 0, 2**62) == [1]


# After a crash


def test_slots_are_rebuilt_from_the_entries() -> None:
    content = written((7, 1, BEGIN), (12, 2, BEGIN), (7, 3, BEGIN), (3, 4, BEGIN))
    lost = bytearray(content)
    lost[HEADER.size : SHAPE.entries_position] = b"\x00\x00\x00\x09" * SHAPE.slots
    disk = FragileDisk({PATH: bytes(lost)})
    file = IndexFile.open(OpenFiles(disk, 10), PATH, SHAPE)

    file.restore()

    assert found(file, 7) == [3, 1]
    flush = file.flush()
    assert flush is not None
    flush.run()
    assert disk.files[PATH] == content


@pytest.mark.parametrize("number", range(1, 5))
def test_an_entry_that_never_reached_the_disk_is_detected(number: int) -> None:
    content = written((7, 0, BEGIN), (12, 2, BEGIN), (7, 3, BEGIN), (3, 4, BEGIN))

    with pytest.raises(StoreDamaged, match=rf"entry {number} |of which its header tells"):
        opened(with_entry(content, number, (0, 0, 0, 0))).restore()


def test_entries_newer_than_the_header_are_ignored() -> None:
    content = written((7, 1, BEGIN), (12, 2, BEGIN), (7, 3, BEGIN))
    HEADER.pack_into(content, 0, *HEADER.unpack_from(written((7, 1, BEGIN), (12, 2, BEGIN))))
    file = opened(content)

    file.restore()

    assert found(file, 7) == [1]
    file.put([7], 3, BEGIN)
    assert found(file, 7) == [3, 1]


@pytest.mark.parametrize("physical_offset", range(2, 6))
def test_a_cut_file_equals_one_without_the_later_entries(physical_offset: int) -> None:
    puts = [(7, 1, BEGIN), (12, 2, BEGIN + 1000), (7, 3, BEGIN + 2000), (3, 4, BEGIN + 3000)]
    disk = FragileDisk({PATH: bytes(written(*puts))})
    file = IndexFile.open(OpenFiles(disk, 10), PATH, SHAPE)

    file.cut(physical_offset)

    # If nothing was cut, everything is on disk already.
    if (flush := file.flush()) is not None:
        flush.run()
    expected = written(*(put for put in puts if put[1] < physical_offset))
    assert disk.files[PATH][: SHAPE.entries_position] == expected[: SHAPE.entries_position]
