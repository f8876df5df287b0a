"""A check finds damage in the timer's files."""

from pathlib import Path

import pytest

from kerolox.store.check.check import check
from kerolox.store.check.report import Report
from kerolox.store.timer.timer_log import UNIT_SIZE
from kerolox.store.timer.wheel import SLOT
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT
from tests.store.timer.timers import LOG_FILE_SIZE, NOW, SLOTS, Bench, no_threads

FIRST_LOG = ROOT / "timerlog" / f"{0:020d}"
WHEEL = ROOT / "timerwheel"
CHECKPOINT = ROOT / "config" / "timercheck"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Eight pending messages, two of them in the same slot, and two that were delivered."""
    no_threads(monkeypatch)
    bench = Bench().open()
    for number, delay in enumerate((2, 3, 40, 40, 41, 60, 300, 20, 21, 22)):
        bench.send(f"m{number}", TIMER_DELAY_SEC=str(delay))
    bench.work()
    bench.pass_time(5)
    bench.flush()
    return bench


def checked(bench: Bench, disk: SimulatedDisk | None = None) -> Report:
    return check(bench.config, disk=disk or bench.disk, wheel_slots=SLOTS)


def slot_position(disk: SimulatedDisk, seconds: int) -> int:
    """Return the position in the wheel of the slot of messages sent with this delay."""
    for at in range(0, SLOTS * SLOT.size, SLOT.size):
        if SLOT.unpack_from(disk.content(WHEEL), at)[0] in (NOW // 1000 + seconds, NOW // 1000 + seconds - 1):
            return at
    raise AssertionError(f"nothing is due after {seconds} s")


def test_a_closed_timer_has_no_complaints(bench: Bench) -> None:
    bench.close()

    report = checked(bench)

    assert report.complaints == []
    # The log keeps the units of delivered messages.
    assert report.timer_units >= 10
    assert report.timer_slots == 7
    assert not [note for note in report.notes if note.startswith("timer")]


def test_a_running_and_a_killed_timer_have_no_complaints(bench: Bench) -> None:
    bench.send("late", TIMER_DELAY_SEC="50")
    bench.work()

    assert checked(bench).complaints == []
    assert checked(bench, bench.disk.after_kill()).complaints == []


def test_a_store_without_a_timer_has_no_complaints() -> None:
    disk = SimulatedDisk()
    store = Bench(disk)
    store.store.recover()

    report = checked(store)

    assert (report.timer_units, report.timer_slots, report.complaints) == (0, 0, [])


@pytest.mark.parametrize(
    ("path", "offset", "data", "complaint"),
    [
        (FIRST_LOG, 3 * UNIT_SIZE, b"\xff", "units up to"),
        (FIRST_LOG, 3 * UNIT_SIZE + 28, bytes([0, 0, 0, 1]), "there is no such record"),
        (FIRST_LOG, 3 * UNIT_SIZE + 37, bytes([0x7F]), "there is no such record"),
        (FIRST_LOG, 3 * UNIT_SIZE + 24, bytes([0, 7, 7, 7]), "which is due at"),
        (CHECKPOINT, 8, bytes([0, 0, 0, 1]), "has units up to"),
        (CHECKPOINT, 16, bytes([0, 0, 0, 1]), "of queue rmq_sys_wheel_timer/0, which ends at 10"),
        (CHECKPOINT, 16, b"\xff", "has impossible values"),
    ],
)
def test_damaged_units_and_checkpoints_are_reported(
    bench: Bench, path: Path, offset: int, data: bytes, complaint: str
) -> None:
    bench.close()
    bench.disk.overwrite(path, offset, data)

    report = checked(bench)

    assert [each for each in report.complaints if each.startswith("timer: ") and complaint in each]


@pytest.mark.parametrize(
    ("offset", "data", "complaint"),
    [
        (16, (2 * LOG_FILE_SIZE).to_bytes(8), "points to"),
        (16, (1 << 40).to_bytes(8), "but there is no unit"),
        (8, (UNIT_SIZE).to_bytes(8), "its chain does not reach it"),
        (0, (NOW // 1000 + 39 + SLOTS // 2).to_bytes(8), "belongs in slot"),
    ],
)
def test_a_damaged_slot_is_reported(bench: Bench, offset: int, data: bytes, complaint: str) -> None:
    bench.close()
    bench.disk.overwrite(WHEEL, slot_position(bench.disk, 40) + offset, data)

    report = checked(bench)

    assert [each for each in report.complaints if each.startswith("timer: slot ") and complaint in each]


def test_a_wrong_message_count_is_only_noted(bench: Bench) -> None:
    bench.close()
    bench.disk.overwrite(WHEEL, slot_position(bench.disk, 40) + 24, (77).to_bytes(4))

    report = checked(bench)

    assert report.complaints == []
    assert [note for note in report.notes if "has 77 messages, but its chain has 2" in note]


def test_a_wheel_or_checkpoint_of_a_wrong_size_is_reported(bench: Bench) -> None:
    bench.close()
    for path in (WHEEL, CHECKPOINT):
        bench.disk.write(path, bench.disk.content(path)[:-1])

    complaints = checked(bench).complaints

    assert [each for each in complaints if f"the wheel has {SLOTS * SLOT.size - 1} bytes" in each]
    assert [each for each in complaints if "the checkpoint has 4095 bytes" in each]


def test_faults_of_the_same_kind_are_reported_together(bench: Bench) -> None:
    bench.close()
    for number in range(5):
        bench.disk.overwrite(FIRST_LOG, number * UNIT_SIZE + 37, bytes([0x7F]))

    complaints = [each for each in checked(bench).complaints if "there is no such record" in each]

    assert len(complaints) == 1
    assert complaints[0].endswith(", and 4 more like this")
