"""In which order and how often the timer's files are flushed."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kerolox.store.errors import StoreReadOnly, SyncFailed
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT
from tests.store.timer.timers import Bench


class WatchedDisk(SimulatedDisk):
    """Records writes and syncs: files by name, files of a log by the name of its directory."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []

    def _change(self, kind: str, path: Path, halfway: Callable[[], None] = lambda: None) -> None:
        part = path.parts[-1] if "config" in path.parts else "".join(path.parts[2:3])
        if not self.seen or self.seen[-1] != (kind, part):
            self.seen.append((kind, part))
        super()._change(kind, path, halfway)


def opened() -> tuple[WatchedDisk, Bench]:
    disk = WatchedDisk()
    disk.make_directory(ROOT)
    bench = Bench(disk).open()
    bench.work()
    bench.flush()
    return disk, bench


def test_the_commit_log_is_durable_before_the_timer_log_and_that_before_wheel_and_checkpoint() -> None:
    disk, bench = opened()
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    disk.seen.clear()
    bench.flush()

    steps = [step for step in disk.seen if step[0] in ("write", "sync", "rename")]
    order = [steps.index(step) for step in FLUSHED]
    assert order == sorted(order)


FLUSHED = [
    ("sync", "commitlog"),
    ("write", "timerlog"),
    ("sync", "timerlog"),
    ("write", "timerwheel"),
    ("sync", "timerwheel"),
    ("write", "timercheck.tmp"),
    ("sync", "timercheck.tmp"),
    ("rename", "timercheck.tmp"),
    ("sync", "config"),
]


def test_nothing_is_written_without_progress() -> None:
    disk, bench = opened()
    disk.seen.clear()
    for _ in range(50):
        bench.pass_time(1)
        bench.flush()
    assert disk.seen == []
    bench.pass_time(15)
    bench.flush()
    assert ("rename", "timercheck.tmp") in disk.seen


def test_nothing_is_written_about_messages_that_are_not_durable() -> None:
    disk, bench = opened()
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    disk.fail("sync", errno.EIO, inside="commitlog")
    disk.seen.clear()
    with pytest.raises(StoreReadOnly, match="the commit log is not durable"):
        bench.flush()
    assert not {part for _, part in disk.seen} & {"timerlog", "timerwheel", "timercheck.tmp"}


@pytest.mark.parametrize("kind", ["write", "rename"])
def test_a_checkpoint_that_could_not_be_written_is_written_later(kind: str) -> None:
    disk, bench = opened()
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    before = disk.content(ROOT / "config" / "timercheck")
    disk.fail(kind, errno.ENOSPC, inside="timercheck.tmp")
    with pytest.raises(OSError, match="No space left"):
        bench.flush()
    assert disk.content(ROOT / "config" / "timercheck") == before
    disk.heal()

    bench.flush()

    assert disk.content(ROOT / "config" / "timercheck") != before
    again = Bench(next(disk.after_power_cut(count=0)), bench.config, bench.clock).open()
    again.pass_time(10)
    assert again.names() == ["a"]


def test_a_checkpoint_whose_sync_failed_is_not_written_again() -> None:
    disk, bench = opened()
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    disk.fail("sync", errno.EIO, count=1, inside="timercheck.tmp")
    before = disk.content(ROOT / "config" / "timercheck")
    with pytest.raises(SyncFailed, match="sync has failed"):
        bench.flush()

    bench.send("b", TIMER_DELAY_SEC="5")
    bench.work()
    bench.flush()

    assert disk.content(ROOT / "config" / "timercheck") == before
