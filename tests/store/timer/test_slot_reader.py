"""Reading the chain of a due slot from the oldest message to the newest, in bounded steps."""

from pathlib import Path

import pytest

from kerolox.message.message import Message
from kerolox.store.timer.convert import TimerMessage
from kerolox.store.timer.slot_reader import SlotReader
from kerolox.store.timer.timer_log import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, TimerLog, Unit
from tests.store.disks import SimulatedDisk

NOW = 1_700_000_000_000


def chain(magics: list[int]) -> tuple[TimerLog, int]:
    """Return a log with a unit for each magic, and the position of the last."""
    disk = SimulatedDisk()
    disk.make_directory(Path("/timerlog"))
    log = TimerLog(disk, Path("/timerlog"), 1 << 20)
    log.load()
    last = -1
    for number, magic in enumerate(magics):
        last = log.append(Unit(last, magic, NOW, 0, number * 100, 100, 0))
    return log, last


def read(unit: Unit) -> TimerMessage:
    return TimerMessage(Message("", b""), NOW, "orders", b"", b"k%d" % unit.physical_offset if unit.is_recall else b"")


def test_messages_are_read_oldest_first_until_they_are_removed() -> None:
    log, last = chain([MAGIC_DEFAULT] * 5)
    due = SlotReader(NOW, last, log, read)
    assert due.prepare()

    assert [unit.physical_offset for unit in due.batch(3, 10_000)] == [0, 100, 200]
    due.remove(2)
    assert [unit.physical_offset for unit in due.batch(9, 10_000)] == [200, 300, 400]
    due.remove(3)
    assert due.batch(9, 10_000) == []


@pytest.mark.parametrize(("bytes_max", "count"), [(1, 1), (100, 1), (250, 2), (500, 5)])
def test_a_batch_is_limited_in_bytes_and_has_at_least_one_unit(bytes_max: int, count: int) -> None:
    log, last = chain([MAGIC_DEFAULT] * 5)
    due = SlotReader(NOW, last, log, read)
    assert due.prepare()
    assert len(due.batch(9, bytes_max)) == count


def test_recalls_are_read_before_the_first_message_and_those_that_roll_are_messages() -> None:
    magics = [MAGIC_DEFAULT, MAGIC_DEFAULT | MAGIC_DELETE, MAGIC_DEFAULT | MAGIC_DELETE | MAGIC_ROLL]
    log, last = chain(magics)
    due = SlotReader(NOW, last, log, read)
    assert due.prepare()
    assert due.recalled == {b"k100"}
    assert len(due.recalls) == 1
    assert [unit.physical_offset for unit in due.batch(9, 10_000)] == [0, 200]


def test_a_long_chain_is_walked_in_several_steps() -> None:
    log, last = chain([MAGIC_DEFAULT] * 2500 + [MAGIC_DEFAULT | MAGIC_DELETE] * 150)
    due = SlotReader(NOW, last, log, read)
    steps = 1
    while not due.prepare():
        steps += 1
    assert steps == 4
    assert len(due.recalled) == 150
    assert len(due.batch(5000, 10**9)) == 2500


def test_the_reachable_units_of_a_broken_chain_are_read(caplog: pytest.LogCaptureFixture) -> None:
    log, _ = chain([MAGIC_DEFAULT] * 3)
    last = log.append(Unit(7, MAGIC_DEFAULT, NOW, 0, 900, 100, 0))
    due = SlotReader(NOW, last, log, read)
    assert due.prepare()
    assert [unit.physical_offset for unit in due.batch(9, 10_000)] == [900]
    assert "no unit at 7" in caplog.text
