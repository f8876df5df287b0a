"""The machine stops after every changing operation, and the timer resumes."""

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from kerolox.message.hosts import NO_HOST
from kerolox.message.records.record import decode
from kerolox.store.check.check import check as store_check
from kerolox.store.config import FlushDiskType, StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.timer.recall import handle_of, recall
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import StillClock, all_records, run
from tests.store.timer.timers import NOW, SLOTS, Bench, timer_config

IMAGES = int(os.environ.get("KEROLOX_CRASH_IMAGES", "2"))
TOPICS = ("orders", "bills")


@dataclass
class History:
    """When each message is due, which are durable, and which were recalled."""

    due: dict[str, int] = field(default_factory=dict)
    promised: set[str] = field(default_factory=set)
    recalled: set[str] = field(default_factory=set)
    sure_recalls: set[str] = field(default_factory=set)
    # The time at which the machine stopped.
    stopped_at: int = 0


class Script:
    """Sends, recalls, rolls and delivers, with several timer log files and a restart."""

    def __init__(self, disk: SimulatedDisk, settings: StoreConfig) -> None:
        self.history = History()
        self.bench = Bench(disk, settings)
        self._is_async = settings.flush_disk_type is FlushDiskType.ASYNC_FLUSH
        self._handles: dict[str, str] = {}

    def run(self) -> None:
        self.bench.open()
        for number in range(4):
            self._send(f"a{number}", delay=3 + number % 2)
        self._send("far", delay=130)
        self._send("gone", "bills", delay=20)
        self._pass(1)
        self._recall("gone")
        self._pass(1)
        self._send("late", delay=1)
        self.bench.clock.move(3)
        self._pass(4)
        for number in range(3):
            self._send(f"b{number}", "bills", delay=30)
        self._pass(2)
        self.bench = self.bench.reopened()
        self._send("c", delay=5)
        self._pass(20)
        run(self.bench.store.flush_behind.flush())
        self._pass(100, step=20)
        self._pass(30, step=10)

    def _send(self, name: str, topic: str = "orders", *, delay: int) -> None:
        self.history.due[name] = self.bench.clock.millis() + delay * 1000
        stored = self.bench.send(name, topic, TIMER_DELAY_SEC=str(delay))
        self._handles[name] = handle_of(stored, "b") or ""
        if self._is_async:
            self.history.promised.add(name)

    def _recall(self, name: str) -> None:
        self.history.recalled.add(name)
        now = self.bench.clock.millis()
        message = recall(
            self._handles[name],
            self.bench.config,
            now,
            topic="bills",
            broker_name="b",
            born_host=NO_HOST,
            store_host=NO_HOST,
        )
        self.bench.store_diverted(message)
        if self._is_async:
            self.history.sure_recalls.add(name)

    def _pass(self, seconds: float, step: float = 1.0) -> None:
        run(self.bench.store.flusher.flush())
        if self.bench.store.flusher.failure is None:
            self.history.promised |= self.history.due.keys()
            self.history.sure_recalls |= self.history.recalled
        for _ in range(int(seconds / step)):
            self.bench.pass_time(step, step)
            self.bench.flush()


def run_until(stop_after: int | None, flush: FlushDiskType) -> tuple[SimulatedDisk, History]:
    disk = SimulatedDisk()
    disk.stop_after = stop_after
    settings = timer_config()
    settings.flush_disk_type = flush
    script = Script(disk, settings)
    try:
        script.run()
    except Stopped:
        assert stop_after is not None
    script.history.stopped_at = script.bench.clock.millis()
    return disk, script.history


def check(disk: SimulatedDisk, history: History, flush: FlushDiskType, *, set_back_millis: int = 0) -> None:
    """Open the remaining files, let time pass and check what was delivered."""
    settings = timer_config()
    settings.flush_disk_type = flush
    bench = Bench(disk, settings, StillClock(max(NOW + 20_000, history.stopped_at) - set_back_millis)).open()
    for _ in range(12 + set_back_millis // 20_000):
        bench.pass_time(20, 20)
        bench.flush()
        if set_back_millis:
            bench = bench.reopened()
    delivered: Counter[str] = Counter()
    for message in [decode(data) for topic in TOPICS for data in all_records(bench.store, topic)]:
        name = message.body.decode()
        delivered[name] += 1
        assert message.store_timestamp >= history.due[name] - set_back_millis, name
    assert history.promised - history.recalled <= delivered.keys()
    assert not history.sure_recalls & delivered.keys()
    assert max(delivered.values(), default=1) == 1
    assert [bench.timer.pending(topic) for topic in TOPICS] == [0, 0]


@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_killed_process_delivers_everything_exactly_once(flush: FlushDiskType) -> None:
    for stop_after, disk, history in every_stop(flush):
        with with_note(f"killed after {stop_after}"):
            check(disk.after_kill(), history, flush)


@pytest.mark.parametrize("seconds", [60, 3600])
def test_a_killed_process_whose_clock_is_set_back_delivers_everything_exactly_once(seconds: int) -> None:
    flush = FlushDiskType.ASYNC_FLUSH
    for stop_after, disk, history in every_stop(flush, step=3 if seconds == 60 else 23):
        with with_note(f"killed after {stop_after}"):
            check(disk.after_kill(), history, flush, set_back_millis=seconds * 1000)


def test_a_power_cut_delivers_each_durable_message_exactly_once() -> None:
    flush = FlushDiskType.SYNC_FLUSH
    for stop_after, disk, history in every_stop(flush):
        for number, left in enumerate(disk.after_power_cut(seed=stop_after, count=IMAGES)):
            with with_note(f"cut after {stop_after}, image {number}"):
                check(left, history, flush)


def test_after_recovery_from_a_kill_or_a_power_cut_the_files_are_intact() -> None:
    flush = FlushDiskType.SYNC_FLUSH
    for stop_after in range(0, run_until(None, flush)[0].operations, 5):
        disk, _ = run_until(stop_after, flush)
        for number, left in enumerate([disk.after_kill(), *disk.after_power_cut(seed=stop_after, count=1)]):
            with with_note(f"stopped after {stop_after}, image {number}"):
                settings = timer_config()
                settings.flush_disk_type = flush
                Bench(left, settings, StillClock(NOW + 20_000)).open().close()

                report = store_check(settings, disk=left, wheel_slots=SLOTS)

                assert report.is_clean
                # Records that were not durable may be damaged.
                assert [each for each in report.complaints if not each.startswith("log: ")] == []


def every_stop(flush: FlushDiskType, step: int = 1) -> Iterator[tuple[int, SimulatedDisk, History]]:
    operations = run_until(None, flush)[0].operations
    assert operations > 200
    for stop_after in range(0, operations, step):
        yield stop_after, *run_until(stop_after, flush)


@contextlib.contextmanager
def with_note(where: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(where)
        raise


def test_a_failing_operation_loses_no_accepted_message() -> None:
    flush = FlushDiskType.ASYNC_FLUSH
    operations = run_until(None, flush)[0].operations
    for number in range(operations):
        disk = SimulatedDisk()
        disk.fail_operation(number, (errno.ENOSPC, errno.EIO)[number % 2])
        script = Script(disk, timer_config())
        # The supervisor would stop and restart the broker now.
        with contextlib.suppress(OSError, StoreError):
            script.run()
        script.history.stopped_at = script.bench.clock.millis()
        disk.heal()
        with with_note(f"operation {number} failed"):
            check(disk.after_kill(), script.history, flush)
