"""The timer wheel: Java's bytes, rounds, and pages in memory."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.store.errors import StoreDamaged
from kerolox.store.timer.wheel import SLOTS, Slot, Wheel
from tests.golden import timers
from tests.store.disks import SimulatedDisk

PATH = Path("/timerwheel")
NOW = 1_700_000_000_000


def new_wheel(disk: SimulatedDisk | None = None, read_time: int = NOW, slots: int = 300) -> Wheel:
    wheel = Wheel(disk or SimulatedDisk(), PATH, slots=slots)
    wheel.load(read_time)
    return wheel


def flush(wheel: Wheel) -> None:
    changes = wheel.take_changes()
    changes.write()
    changes.file.sync()


def test_the_default_wheel_is_as_large_as_javas() -> None:
    disk = SimulatedDisk()
    new_wheel(disk, slots=SLOTS)
    assert len(disk.content(PATH)) == timers.load().wheel_size


def test_slots_of_java_are_read() -> None:
    golden = timers.load()
    disk = SimulatedDisk()
    content = bytearray(golden.wheel_size)
    for number, slot in golden.slots.items():
        content[number * 32 : number * 32 + 32] = slot
    disk.write(PATH, bytes(content))

    wheel = new_wheel(disk, timers.NOW, SLOTS)

    found = dict(wheel.pending())
    assert found[timers.NOW + 5_000] == Slot(0, 192, 1)
    assert found[timers.NOW + 7_000] == Slot(52, 52, 1)
    assert found[timers.NOW + 102_000] == Slot(244, 244, 1)
    assert found[timers.NOW + 100_000] == Slot(436, 436, -1)
    assert len(found) == len(golden.slots)
    assert wheel.pages == 2


def test_flushed_slots_are_loaded() -> None:
    disk = SimulatedDisk()
    wheel = new_wheel(disk)
    wheel.add(NOW + 5000, 100, 1)
    wheel.add(NOW + 5000, 200, 1)
    wheel.add(NOW + 299_000, 300, -1)
    flush(wheel)

    again = new_wheel(disk)

    assert dict(again.pending()) == {NOW + 5000: Slot(100, 200, 2), NOW + 299_000: Slot(300, 300, -1)}
    assert new_wheel(disk, NOW + 6000).slot(NOW + 5000) == Slot()


def test_the_next_slot_is_found_across_pages_and_the_end_of_the_wheel() -> None:
    for distance in range(0, 300, 7):
        wheel = new_wheel()
        time = NOW + distance * 1000
        wheel.add(time, 1, 1)

        assert wheel.next_due(time, 10_000) is None
        assert wheel.read_time == time
        assert wheel.next_due(time + 1000, 10_000) == time


def test_the_search_for_the_next_slot_is_bounded() -> None:
    wheel = new_wheel(slots=SLOTS)
    wheel.add(NOW + 100_000_000, 1, 1)

    assert wheel.next_due(NOW + 200_000_000, 3) is None
    assert wheel.next_due(NOW + 200_000_000, 3) == NOW + 100_000_000
    wheel.advance(NOW + 100_001_000)
    years = 10 * 365 * 86_400_000
    assert wheel.next_due(NOW + years, 3) is None
    assert wheel.read_time == NOW + years


def test_rewinding_erases_finished_slots_also_in_the_file() -> None:
    wheel = new_wheel(slots=SLOTS)
    for second in (10, 20, 3000):
        wheel.add(NOW + second * 1000, second, 1)
    flush(wheel)
    while (time := wheel.next_due(NOW + 1_000_000, 10_000)) is not None:
        wheel.advance(time + 1000)
    flush(wheel)

    wheel.rewind(NOW + 15_000)

    assert list(wheel.pending()) == [(NOW + 3_000_000, Slot(3000, 3000, 1))]
    flush(wheel)
    assert wheel.slot(NOW + 20_000) == Slot()
    wheel.add(NOW + 20_000, 5000, 1)
    assert wheel.next_due(NOW + 1_000_000, 10_000) == NOW + 20_000


def test_finished_pages_are_removed_from_memory() -> None:
    wheel = new_wheel(slots=SLOTS)
    for second in range(2000):
        wheel.add(NOW + second * 1000, second, 1)
    assert wheel.pages > 15
    flush(wheel)
    while (time := wheel.next_due(NOW + 2_000_000, 10_000)) is not None:
        wheel.advance(time + 1000)
    assert wheel.pages <= 1


def test_finished_pages_are_removed_from_memory_once_they_are_written() -> None:
    wheel = new_wheel(slots=SLOTS)
    wheel.add(NOW + 1000, 1, 1)
    wheel.advance(NOW + 1_000_000)
    assert wheel.pages == 1
    flush(wheel)
    assert wheel.pages == 0


def test_a_slot_with_overdue_messages_is_taken() -> None:
    wheel = new_wheel()
    wheel.add(NOW + 5000, 1, 1)
    assert wheel.is_taken(NOW + 305_000)
    assert not wheel.is_taken(NOW + 5000)
    assert not wheel.is_taken(NOW + 6000)
    wheel.advance(NOW + 6000)
    assert not wheel.is_taken(NOW + 305_000)


def test_pages_that_could_not_be_written_are_written_again() -> None:
    disk = SimulatedDisk()
    wheel = new_wheel(disk)
    wheel.add(NOW + 5000, 1, 1)
    changes = wheel.take_changes()
    assert wheel.take_changes().pages == {}
    wheel.restore_changes(changes)
    flush(wheel)
    assert dict(new_wheel(disk).pending()) == {NOW + 5000: Slot(1, 1, 1)}


def test_a_file_of_a_wrong_size_is_refused() -> None:
    disk = SimulatedDisk()
    new_wheel(disk).close()
    with pytest.raises(StoreDamaged, match="/timerwheel has 9600 bytes, expected 9664"):
        new_wheel(disk, slots=302)


@given(
    entered=st.dictionaries(st.integers(0, 299), st.integers(1, 5), max_size=30),
    now=st.integers(0, 700),
    begin=st.integers(0, 320),
    size=st.integers(1, 320),
)
def test_due_messages_within_a_time_are_counted_across_pages(
    entered: dict[int, int], now: int, begin: int, size: int
) -> None:
    """The wheel has two pages and a part of a third, and the time may be anywhere in it."""
    start = NOW + now * 1000
    wheel = new_wheel(read_time=start)
    for slot, count in entered.items():
        wheel.put(start + slot * 1000, Slot(0, 0, count))

    due = dict(wheel.due_between(start + begin * 1000, start + (begin + size) * 1000))

    expected = {start + slot * 1000: n for slot, n in entered.items() if begin <= slot < begin + size}
    assert {time: count for time, count in due.items() if count} == expected
