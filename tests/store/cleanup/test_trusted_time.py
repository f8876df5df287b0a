"""A clock that is ahead by mistake deletes no files; one that is right deletes them in the end."""

import logging
from datetime import datetime

import pytest

from kerolox.store.cleanup.trusted_time import TRUSTED_TIME, TrustedTime
from kerolox.store.config import Hours
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import (
    LOG,
    ROOT,
    SEGMENT_SIZE,
    StillClock,
    config,
    draft_of_size,
    opened,
    put,
    run,
    without_threads,
)

MINUTE, HOUR, YEAR = 60, 3600, 365 * 86_400
EVERY_HOUR = Hours(";".join(f"{hour:02d}" for hour in range(24)))


@pytest.fixture(autouse=True)
def _threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


class RunningStore:
    """A running store that deletes expired files in every hour."""

    def __init__(self, disk: SimulatedDisk | None = None, clock: StillClock | None = None) -> None:
        self.clock = clock or StillClock()
        self.disk = disk or SimulatedDisk()
        self.disk.millis = self.clock.millis
        settings = config(delete_when=EVERY_HOUR, delete_commit_log_files_interval=0)
        self.store: Store = opened(self.disk, settings, self.clock)

    def fill(self, files: int) -> None:
        for _ in range(files):
            put(self.store, draft_of_size(SEGMENT_SIZE - 8))
        put(self.store, draft_of_size(100))

    def clean(self) -> int:
        return run(self.store.retention.clean())

    def save_time(self) -> None:
        trusted = self.store.retention.trusted_time
        trusted.save(trusted.content())

    def pass_hours(self, hours: int) -> int:
        """Let time pass as in a running broker; return the number of deleted files."""
        count = 0
        for _ in range(hours):
            self.clock.move(HOUR)
            count += self.clean()
        return count

    def restarted(self) -> "RunningStore":
        run(self.store.close())
        return RunningStore(self.disk, self.clock)

    @property
    def files(self) -> list[int]:
        return [int(name) // SEGMENT_SIZE for name in self.disk.names(LOG)]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("seconds", [MINUTE, HOUR, 10 * YEAR])
def test_a_clock_that_jumps_ahead_deletes_nothing(seconds: int, is_restarted: bool) -> None:
    running = RunningStore()
    running.fill(3)
    running.clean()
    running.clock.step(seconds)
    if is_restarted:
        running = running.restarted()
    assert running.clean() == 0
    running.clock.step(-seconds)
    assert running.pass_hours(70) == 0
    assert running.files == [0, 1, 2, 3]
    assert running.pass_hours(3) == 3


def test_writes_and_restarts_do_not_make_a_clock_trusted_that_is_ahead() -> None:
    running = RunningStore()
    running.fill(3)
    running.save_time()
    running.clock.step(10 * YEAR)
    for _ in range(3):
        running = running.restarted()
        running.fill(1)
        running.save_time()
        assert running.clean() == 0


def test_a_file_written_while_the_clock_was_ahead_does_not_keep_others() -> None:
    running = RunningStore()
    running.fill(1)
    running.clock.step(10 * YEAR)
    running.fill(1)
    running.clock.step(-10 * YEAR)
    running.clock.move(HOUR)
    running.fill(2)
    assert running.pass_hours(71) == 1
    assert running.pass_hours(3) == 5
    assert running.files == [6]


def test_a_broker_that_was_off_for_a_year_deletes_old_files_after_the_reserved_time() -> None:
    running = RunningStore()
    running.fill(3)
    running.save_time()
    run(running.store.close())
    running.clock.move(YEAR)
    running = RunningStore(running.disk, running.clock)
    # An hour at a time: by the trusted time they expire like any file.
    assert running.pass_hours(71) == 0
    assert running.pass_hours(2) == 3


def test_after_a_stop_of_an_hour_files_are_deleted_by_the_clock_at_once() -> None:
    running = RunningStore()
    running.fill(3)
    running.pass_hours(71)
    running.save_time()
    run(running.store.close())
    running.clock.move(HOUR + 1)
    assert RunningStore(running.disk, running.clock).clean() == 3


def test_a_full_disk_is_cleaned_although_the_clock_is_not_trusted() -> None:
    running = RunningStore()
    running.fill(3)
    running.clean()
    running.clock.step(10 * YEAR)
    run(running.store.flush_behind.flush())
    running.disk.capacity = 1
    running.disk.capacity = round(running.disk.used_ratio(ROOT) / 0.88)
    assert running.clean() == 1


@pytest.mark.parametrize("seconds", [MINUTE, HOUR, 10 * YEAR])
def test_a_clock_that_is_set_back_deletes_nothing_early_and_everything_in_the_end(seconds: int) -> None:
    running = RunningStore()
    running.fill(2)
    running.clock.step(-seconds)
    assert running.pass_hours(70) == 0
    running.fill(1)
    # Files written by the current clock expire by it.
    assert running.pass_hours(74) == 4


def test_a_jump_is_reported_once_with_numbers(caplog: pytest.LogCaptureFixture) -> None:
    running = RunningStore()
    running.fill(1)
    with caplog.at_level(logging.WARNING):
        running.clock.step(100 * HOUR)
        for _ in range(3):
            running.clean()

    (line,) = [record.getMessage() for record in caplog.records]
    assert "100.0 hours ahead" in line
    assert "72 hours" in line


def test_a_corrected_clock_is_trusted_after_it_was_steady_for_long() -> None:
    clock = StillClock()
    trusted = TrustedTime(config(), SimulatedDisk(), clock)
    clock.step(YEAR)
    before = trusted.millis()
    assert before == clock.millis() - YEAR * 1000
    clock.move(71 * HOUR)
    assert trusted.millis() == before + 71 * HOUR * 1000
    clock.move(2 * HOUR)
    assert trusted.millis() == clock.millis()


def test_the_trusted_time_is_saved_as_json() -> None:
    running = RunningStore()
    running.save_time()
    assert running.disk.read(ROOT / "config" / TRUSTED_TIME) == b'{\n\t"trustedMillis":%d\n}' % running.clock.millis()
    assert datetime.fromtimestamp(running.clock.millis() / 1000).year == 2023
