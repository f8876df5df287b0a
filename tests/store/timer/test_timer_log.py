"""The timer log: Java's bytes, blanks between files, and deletion."""

from pathlib import Path

from kerolox.message.tags import java_hash
from kerolox.store.timer.timer_log import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, UNIT_SIZE, TimerLog, Unit
from tests.golden import timers
from tests.store.disks import SimulatedDisk

DIRECTORY = Path("/timerlog")


def new_log(disk: SimulatedDisk, file_size: int = timers.FILE_SIZE) -> TimerLog:
    disk.make_directory(DIRECTORY)
    log = TimerLog(disk, DIRECTORY, file_size)
    log.load()
    return log


def unit(physical_offset: int = 0, previous: int = -1) -> Unit:
    return Unit(previous, MAGIC_DEFAULT, 1_700_000_000_000, 5000, physical_offset, 100, 7)


def filled(disk: SimulatedDisk, count: int) -> TimerLog:
    log = new_log(disk)
    log.cut(0)
    for number in range(count):
        log.append(unit(number * 100))
    flush(log)
    return log


def flush(log: TimerLog) -> None:
    log.flush(log.end)
    sync = log.hold()
    sync.run()
    log.release(sync)


def test_units_of_java_are_read() -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    golden = timers.load()
    for name, content in golden.log.items():
        disk.write(DIRECTORY / name, content)

    units = list(new_log(disk).units(0))

    assert [position for position, _ in units] == [0, 52, 104, 192, 244, 296, 384, 436]
    for (_, found), entered in zip(units, timers.ENTERED, strict=True):
        assert (found.physical_offset, found.size) == (entered.physical_offset, entered.size)
        assert (found.enqueue_time, found.topic_hash) == (entered.write_time, java_hash(entered.topic))
        assert found.is_recall == bool(entered.delete_key)
        assert found.rolls or found.time == entered.out_millis
    assert [found.magic for _, found in units] == [1, 1, 1, 5, 3, 3, 1, 7]
    assert MAGIC_DEFAULT | MAGIC_ROLL | MAGIC_DELETE == 7


def test_units_are_written_with_the_bytes_of_java() -> None:
    golden = timers.load()
    theirs, ours = SimulatedDisk(), SimulatedDisk()
    theirs.make_directory(DIRECTORY)
    for name, content in golden.log.items():
        theirs.write(DIRECTORY / name, content)
    log = new_log(ours)
    log.cut(0)

    for position, found in new_log(theirs).units(0):
        assert log.append(found) == position
    flush(log)

    assert {name: ours.content(DIRECTORY / name) for name in ours.names(DIRECTORY)} == golden.log


def test_units_are_read_from_memory_and_from_files() -> None:
    log = filled(SimulatedDisk(), 5)
    for number in range(5, 12):
        log.append(unit(number * 100))
    assert [found.physical_offset for _, found in log.units(0)] == [number * 100 for number in range(12)]
    assert log.unit(log.end - UNIT_SIZE) == unit(1100)
    assert log.unit(log.end) is None


def test_a_flush_writes_only_units_from_before_it_began() -> None:
    disk = SimulatedDisk()
    log = filled(disk, 1)
    log.append(unit(200))
    end = log.end
    log.append(unit(300))
    log.flush(end)
    assert len(list(new_log(disk).units(0))) == 2
    assert log.pending_bytes == UNIT_SIZE


def test_an_invalid_unit_ends_the_log() -> None:
    for at, data in ((0, b"\0\0\0\0"), (15, b"\0"), (15, b"\x20"), (4, b"\x7f"), (28, b"\xff"), (36, b"\0\0\0\0")):
        disk = SimulatedDisk()
        filled(disk, 3)
        disk.overwrite(DIRECTORY / f"{0:020d}", 52 + at, data)
        assert len(list(new_log(disk).units(0))) == 1, at


def test_truncated_units_are_not_found() -> None:
    disk = SimulatedDisk()
    filled(disk, 8)
    log = new_log(disk)
    log.cut(52)
    log.append(unit(700))
    flush(log)
    assert [found.physical_offset for _, found in new_log(disk).units(0)] == [0, 700]


def test_a_file_is_deleted_once_the_commit_log_lost_its_last_message() -> None:
    disk = SimulatedDisk()
    log = filled(disk, 8)
    assert log.delete_before(200) == 0
    assert log.delete_before(201) == 1
    assert log.first == 192
    assert log.delete_before(10_000) == 1
    assert log.delete_before(10_000) == 0
    assert len(disk.names(DIRECTORY)) == 1
    assert [found.physical_offset for _, found in log.units(log.first)] == [600, 700]
