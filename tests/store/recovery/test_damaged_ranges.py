"""Damage is reported once, remembered, and never served."""

import errno
import logging

import pytest

from kerolox.store.log.scan import Damage
from kerolox.store.recovery.damaged_ranges import FILE_NAME, DamagedRanges
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, ROOT, all_records, config, draft_of_size, opened, put, run, without_threads

FIRST = LOG / f"{0:020d}"
PATH = ROOT / FILE_NAME
ONE = Damage(100, 200, "one")
TWO = Damage(5000, 5100, "two")


@pytest.fixture(autouse=True)
def threadless(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    without_threads(monkeypatch)
    caplog.set_level(logging.INFO, "kerolox.store.recovery.damaged_ranges")


def new_damages(disk: SimulatedDisk | None = None) -> DamagedRanges:
    disk = disk or SimulatedDisk()
    disk.make_directory(ROOT)
    damages = DamagedRanges(disk, PATH)
    damages.load()
    return damages


def levels(caplog: pytest.LogCaptureFixture) -> list[int]:
    found = [record.levelno for record in caplog.records if record.name == "kerolox.store.recovery.damaged_ranges"]
    caplog.clear()
    return found


def damaged(count: int) -> SimulatedDisk:
    """Return a closed store with `count` records, one per file, the first of them damaged."""
    disk = SimulatedDisk()
    store = opened(disk, config(message_index_enable=False))
    put(store, *[draft_of_size(3000) for _ in range(count)])
    run(store.close())
    disk.overwrite(FIRST, 1000, b"!")
    return disk


def test_damage_is_logged_as_an_error_once_and_then_as_info(caplog: pytest.LogCaptureFixture) -> None:
    disk = damaged(2)

    for expected in ([logging.ERROR], [logging.INFO], [logging.INFO]):
        store = opened(disk, config(message_index_enable=False))
        assert levels(caplog) == expected
        assert store.reader.get("t", 0, 0, count_max=1).records != []
        assert len(all_records(store, "t")) == 1
        run(store.close())


def test_damage_that_a_later_start_does_not_read_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    disk = damaged(2)
    store = opened(disk, config(message_index_enable=False))
    put(store, *[draft_of_size(3000) for _ in range(5)])
    run(store.close())
    levels(caplog)

    again = opened(disk, config(message_index_enable=False))

    assert levels(caplog) == [logging.INFO]
    assert again.reader.record_at(0, 3000) is None
    assert len(all_records(again, "t")) == 6


def test_damage_is_forgotten_with_its_file(caplog: pytest.LogCaptureFixture) -> None:
    disk = damaged(6)
    disk.make_directory(ROOT)
    damages = new_damages(disk)
    damages.note([Damage(0, 3000, "found")], first_offset=0, read_from=0)
    store = opened(disk, config(message_index_enable=False))
    store.log.delete_before(4096)
    run(store.close())
    levels(caplog)

    opened(disk, config(message_index_enable=False))

    assert levels(caplog) == []
    assert new_damages(disk).known == []


def test_a_repaired_range_is_served_again() -> None:
    disk = damaged(2)
    store = opened(disk, config(message_index_enable=False))
    run(store.close())
    disk.overwrite(FIRST, 1000, b"x")

    again = opened(disk, config(message_index_enable=False))

    assert len(all_records(again, "t")) == 2
    assert new_damages(disk).known == []


def test_a_part_of_a_known_range_is_not_reported_again(caplog: pytest.LogCaptureFixture) -> None:
    damages = new_damages()
    damages.note([ONE, TWO], first_offset=0, read_from=0)
    assert levels(caplog) == [logging.ERROR, logging.ERROR]

    damages.note([Damage(5050, 5100, "part")], first_offset=0, read_from=4096)
    assert levels(caplog) == [logging.INFO]
    assert [damage.offset for damage in damages.known] == [100, 5050]
    damages.note([Damage(5000, 5101, "more")], first_offset=0, read_from=4096)

    assert levels(caplog) == [logging.ERROR, logging.INFO]


def test_unchanged_ranges_are_not_written() -> None:
    disk = SimulatedDisk()
    damages = new_damages(disk)
    damages.note([], first_offset=0, read_from=0)
    assert PATH.name not in disk.names(ROOT)
    damages.note([ONE], first_offset=0, read_from=0)
    before = disk.operations

    again = new_damages(disk)
    again.note([ONE], first_offset=0, read_from=0)

    assert again.known == [ONE]
    assert disk.operations == before


@pytest.mark.parametrize("content", [b"", b"{", b'{"a":1}', b'[{"offset":"x"}]', b"\xff", b"[1]"])
def test_an_unreadable_file_counts_as_empty(content: bytes) -> None:
    disk = SimulatedDisk()
    disk.make_directory(ROOT)
    disk.write(PATH, content)

    damages = new_damages(disk)
    assert damages.known == []
    damages.note([ONE], first_offset=0, read_from=0)

    assert new_damages(disk).known == [ONE]


def test_a_store_opens_although_the_ranges_cannot_be_saved(caplog: pytest.LogCaptureFixture) -> None:
    disk = damaged(2)
    disk.fail("write", errno.ENOSPC, inside=FILE_NAME)

    for _ in range(2):
        store = opened(disk, config(message_index_enable=False))
        assert levels(caplog) == [logging.ERROR, logging.WARNING]
        assert len(all_records(store, "t")) == 1
        run(store.close())
