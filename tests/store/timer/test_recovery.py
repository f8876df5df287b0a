"""Files that do not agree, as Java's order of writing or a crash may leave them."""

import pytest

from kerolox.store.timer.timer_log import UNIT_SIZE
from kerolox.store.timer.wheel import SLOT
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT
from tests.store.timer.timers import NOW, Bench

CHECKPOINT = ROOT / "config" / "timercheck"


def stopped_timer() -> tuple[SimulatedDisk, Bench]:
    """Return a cleanly stopped timer with three pending messages."""
    disk = SimulatedDisk()
    bench = Bench(disk).open()
    for name in ("a", "b", "c"):
        bench.send(name, TIMER_DELAY_SEC="20")
        bench.pass_time(1)
    bench.close()
    return disk, bench


def opened(disk: SimulatedDisk, bench: Bench) -> Bench:
    return Bench(disk, bench.config, bench.clock).open()


def set_checkpoint(disk: SimulatedDisk, *values: int) -> None:
    """Change the first fields as Java would, without changing ours."""
    for number, value in enumerate(values):
        disk.overwrite(CHECKPOINT, number * 8, value.to_bytes(8))


@pytest.mark.parametrize("log_position", [0, 52, 104, 156])
def test_messages_with_units_after_the_checkpoint_are_not_enqueued_again(log_position: int) -> None:
    """Java's checkpoint has the durable end of the timer log of the previous flush."""
    disk, bench = stopped_timer()
    set_checkpoint(disk, NOW, log_position, log_position // UNIT_SIZE, 3)
    again = opened(disk, bench)
    assert again.timer.pending("orders") == 3
    again.pass_time(25)
    assert again.names() == ["a", "b", "c"]


def test_a_queue_offset_ahead_of_the_log_position_loses_nothing() -> None:
    disk, bench = stopped_timer()
    set_checkpoint(disk, NOW, 0, 3, 3)
    again = opened(disk, bench)
    again.pass_time(25)
    assert again.names() == ["a", "b", "c"]


def test_a_wheel_that_lacks_units_of_the_log_is_rebuilt() -> None:
    disk, bench = stopped_timer()
    disk.write(ROOT / "timerwheel", bytes(len(disk.content(ROOT / "timerwheel"))))
    set_checkpoint(disk, NOW, 0, 0, 0)
    again = opened(disk, bench)
    again.pass_time(25)
    assert again.names() == ["a", "b", "c"]


def test_slots_that_point_beyond_the_log_are_repaired() -> None:
    disk, bench = stopped_timer()
    # Java lost the last unit, which its wheel points to.
    disk.overwrite(ROOT / "timerlog" / f"{0:020d}", 2 * UNIT_SIZE, bytes(UNIT_SIZE))
    set_checkpoint(disk, NOW, 52, 1, 1)
    out = NOW + 19_000 + 2000
    at = out // 1000 % 512 * SLOT.size
    disk.overwrite(ROOT / "timerwheel", at, SLOT.pack(out // 1000, 0, 104, 3, 0))
    again = opened(disk, bench)
    again.pass_time(25)
    assert sorted(again.names()) == ["a", "b", "c"]


def test_a_unit_that_points_to_no_timer_message_ends_the_log() -> None:
    disk, bench = stopped_timer()
    disk.overwrite(ROOT / "timerlog" / f"{0:020d}", UNIT_SIZE + 28, (7).to_bytes(8))
    set_checkpoint(disk, NOW, 0, 0, 0)
    again = opened(disk, bench)
    assert again.timer.log.end == UNIT_SIZE
    again.pass_time(25)
    assert again.names() == ["a", "b", "c"]


def test_without_the_timer_files_all_messages_are_enqueued_again() -> None:
    disk, bench = stopped_timer()
    disk.remove(CHECKPOINT)
    disk.remove(ROOT / "timerwheel")
    disk.remove(ROOT / "timerlog" / f"{0:020d}")
    again = opened(disk, bench)
    again.pass_time(25)
    assert again.names() == ["a", "b", "c"]


def test_lost_or_wrong_counts_are_counted_again() -> None:
    disk, bench = stopped_timer()
    disk.remove(ROOT / "config" / "timermetrics")
    assert opened(disk, bench).timer.pending("orders") == 3


def test_timer_log_files_are_deleted_with_the_commit_log() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk).open()
    for number in range(40):
        bench.send(f"{number}", TIMER_DELAY_SEC="2")
        bench.pass_time(1)
    bench.flush()
    assert bench.timer.clean() == 0
    before = len(disk.names(ROOT / "timerlog"))
    bench.store.log.delete_before(bench.store.log.end_offset)

    removed = bench.timer.clean()

    assert removed > 2
    assert len(disk.names(ROOT / "timerlog")) == before - removed
    bench.pass_time(5)
    again = bench.reopened()
    again.send("last", TIMER_DELAY_SEC="2")
    again.pass_time(5)
    assert again.names()[-1] == "last"


def test_a_timer_message_that_was_cut_off_the_log_is_not_delivered() -> None:
    bench = Bench().open()
    bench.send("kept", TIMER_DELAY_SEC="20")
    bench.work()
    bench.flush()
    cut = bench.store.log.end_offset
    bench.send("lost", TIMER_DELAY_SEC="20")
    bench.work()
    bench.flush()
    bench.store.request_truncation(cut)
    again = bench.reopened()
    # Its record is where that of the lost message was.
    again.send("next", TIMER_DELAY_SEC="30")
    again.pass_time(40)
    assert again.names() == ["kept", "next"]
