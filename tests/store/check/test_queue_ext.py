"""A check finds damaged ConsumeQueueExt units."""

import pytest

from kerolox.store.check import queue_ext
from kerolox.store.check.check import check
from kerolox.store.check.report import Report
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT, config, draft, opened, put, run, without_threads

SETTINGS = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 128}
UNITS = ROOT / "consumequeue_ext" / "orders" / "0"
UNIT_SIZE = 20


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """Twenty messages in each of two queues, stopped cleanly."""
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = opened(disk, config(**SETTINGS))
    put(store, *[draft(queue_id=number % 2, TAGS=f"tag-{number}") for number in range(40)])
    run(store.close())
    return disk


def checked(disk: SimulatedDisk) -> Report:
    return check(config(**SETTINGS), disk=disk)


def test_intact_units_are_counted(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    # Fewer queues may read ahead than there are.
    monkeypatch.setattr(queue_ext, "_READ_AHEAD_MAX", 1)

    report = checked(disk)

    assert report.complaints == []
    assert report.units == 40
    assert not [note for note in report.notes if note.startswith("units")]


@pytest.mark.parametrize(
    ("offset", "data", "complaint"),
    [
        (0, b"\x7f\xff", "entry 0 points to a unit at 0, but there is none"),
        (UNIT_SIZE + 9, b"\x55", "entry 1 has a unit with tags code"),
        (2 * UNIT_SIZE + 17, b"\x55", "entry 2 has a unit stored at"),
    ],
)
def test_a_damaged_unit_is_reported(disk: SimulatedDisk, offset: int, data: bytes, complaint: str) -> None:
    disk.overwrite(UNITS / f"{0:020d}", offset, data)

    assert [each for each in checked(disk).complaints if f"queue orders/0: {complaint}" in each]


def test_missing_and_short_files_are_reported(disk: SimulatedDisk) -> None:
    other = ROOT / "consumequeue_ext" / "orders" / "1"
    disk.write(UNITS / f"{0:020d}", b"short")
    for name in disk.names(other):
        disk.remove(other / name)

    complaints = checked(disk).complaints

    assert [each for each in complaints if each.startswith("units orders/0: ")]
    assert [each for each in complaints if "queue orders/1: entry 0 points to a unit at 0, but there is none" in each]


def test_units_without_a_queue_are_noted(disk: SimulatedDisk) -> None:
    disk.make_directory(ROOT / "consumequeue_ext" / "gone" / "7")

    report = checked(disk)

    assert report.complaints == []
    assert "units: 1 directories belong to no queue" in report.notes
