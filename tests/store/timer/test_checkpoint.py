"""The timer's checkpoint: Java's bytes, and our own fields."""

from pathlib import Path

from kerolox.store.timer.checkpoint import TimerCheckpoint
from tests.golden import timers
from tests.store.disks import SimulatedDisk

PATH = Path("/config/timercheck")


def new_checkpoint(disk: SimulatedDisk) -> TimerCheckpoint:
    disk.make_directory(PATH.parent)
    checkpoint = TimerCheckpoint(disk, PATH)
    checkpoint.load()
    return checkpoint


def with_progress(disk: SimulatedDisk) -> TimerCheckpoint:
    checkpoint = new_checkpoint(disk)
    checkpoint.set_progress(read_time=1, log_position=2, queue_offset=3, delivered_from=4, counts_version=5, now=6)
    checkpoint.flush()
    return checkpoint


def test_the_checkpoint_of_java_is_read_and_written_back() -> None:
    golden = timers.load()
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    disk.write(PATH, golden.checkpoint.ljust(4096, b"\0"))

    checkpoint = new_checkpoint(disk)

    assert (checkpoint.read_time, checkpoint.log_position) == (timers.NOW + 50_000, 192)
    assert (checkpoint.queue_offset, checkpoint.master_queue_offset) == (8, 8)
    assert (checkpoint.state_version, checkpoint.counter) == (3, 1)
    assert checkpoint.encode() == golden.checkpoint
    assert checkpoint.delivered_from is None


def test_flushed_progress_is_read_again() -> None:
    disk = SimulatedDisk()
    with_progress(disk)
    again = new_checkpoint(disk)
    assert (again.read_time, again.log_position, again.queue_offset, again.master_queue_offset) == (1, 2, 3, 3)
    assert (again.delivered_from, again.counts_version) == (4, 5)
    assert (again.timestamp, again.counter) == (6, 1)
    assert len(disk.content(PATH)) == 4096


def test_our_fields_are_ignored_after_java_has_written() -> None:
    disk = SimulatedDisk()
    with_progress(disk)
    disk.overwrite(PATH, 0, (9).to_bytes(8))
    again = new_checkpoint(disk)
    assert again.read_time == 9
    assert (again.delivered_from, again.counts_version) == (None, None)


def test_the_version_changes_only_with_the_fields_of_a_slave() -> None:
    checkpoint = with_progress(SimulatedDisk())
    checkpoint.set_progress(read_time=1, log_position=7, queue_offset=3, delivered_from=8, counts_version=9, now=10)
    assert (checkpoint.timestamp, checkpoint.counter) == (6, 1)
    checkpoint.set_progress(read_time=2, log_position=7, queue_offset=3, delivered_from=8, counts_version=9, now=10)
    assert (checkpoint.timestamp, checkpoint.counter) == (10, 2)
