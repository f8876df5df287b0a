"""Dumping the messages of a log, all or selected ones."""

import pytest

from kerolox.runtime.files import Disk
from kerolox.store.check.dump import DumpFilter, dump
from tests.store.disks import SimulatedDisk
from tests.store.stores import LOG, config, draft, opened, put, run, without_threads


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """Forty messages in two topics, two queues and several files."""
    without_threads(monkeypatch)
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(40):
        put(store, draft(b"%d" % number + b" " * 200, "ab"[number % 2], number // 2 % 2, KEYS=f"k{number % 5} other"))
    run(store.close())
    return disk


def numbers(disk: Disk, **selected: object) -> list[int]:
    return [int(message.body) for message in dump(config(), DumpFilter(**selected), disk=disk)]  # type: ignore[arg-type]


def test_all_records_are_dumped_in_log_order(disk: SimulatedDisk) -> None:
    assert numbers(disk) == list(range(40))


def test_records_are_selected_by_topic_queue_and_queue_offset(disk: SimulatedDisk) -> None:
    assert numbers(disk, topic="a") == list(range(0, 40, 2))
    assert numbers(disk, topic="b", queue_id=1) == list(range(3, 40, 4))
    assert numbers(disk, topic="b", queue_id=1, queue_offset=8) == [35, 39]
    assert numbers(disk, queue_id=1, queue_offset=8) == [34, 35, 38, 39]
    assert numbers(disk, topic="c", queue_id=0) == []


def test_records_are_selected_by_key(disk: SimulatedDisk) -> None:
    assert numbers(disk, key=b"k3") == list(range(3, 40, 5))
    assert numbers(disk, key=b"k3", topic="a") == [8, 18, 28, 38]
    assert numbers(disk, key=b"k3", topic="a", queue_id=0) == [8, 28]
    assert numbers(disk, key=b"k3 other") == []


def test_records_are_selected_by_physical_offset(disk: SimulatedDisk) -> None:
    offsets = [message.physical_offset for message in dump(config(), disk=disk)]

    assert numbers(disk, start_offset=offsets[20]) == list(range(20, 40))
    assert numbers(disk, start_offset=offsets[20] + 1, end_offset=offsets[30]) == list(range(21, 30))
    assert numbers(disk, topic="b", queue_id=1, start_offset=offsets[11], end_offset=offsets[19]) == [11, 15]


def test_damaged_records_are_skipped(disk: SimulatedDisk) -> None:
    disk.overwrite(LOG / f"{0:020d}", 100, b"\xff")

    assert numbers(disk) == list(range(1, 40))
    assert numbers(disk, topic="a", queue_id=0) == list(range(4, 40, 4))
