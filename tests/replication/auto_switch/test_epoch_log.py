"""The epoch file and the log: whenever the machine stops, no record is assigned to an epoch that did not write it."""

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from kerolox.message.records.summary import peek
from kerolox.replication.auto_switch.epoch_log import EpochLog
from kerolox.replication.auto_switch.epochs import EpochEntry, Epochs
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store.store import Store
from tests.replication.auto_switch.groups import Node, running
from tests.replication.nodes import fill
from tests.store.disks import SimulatedDisk, Stopped
from tests.store.stores import config, draft, numbered_records, opened, put, run, without_threads

P = ParamSpec("P")
R = TypeVar("R")


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call_inline(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    without_threads(monkeypatch)
    monkeypatch.setattr("kerolox.replication.auto_switch.epoch_log.in_thread", call_inline)


def epoch_log(store: Store, disk: SimulatedDisk) -> EpochLog:
    epochs = EpochLog(store, disk, ManualClock())
    run(epochs.open())
    return epochs


def write_epoch(store: Store, epochs: EpochLog, epoch: int) -> None:
    run(epochs.begin(epoch))
    for number in range(3):
        put(store, draft(b"epoch %d" % epoch, "orders", 0, KEYS=f"{epoch} {number}"))


def check(left: SimulatedDisk) -> Epochs:
    """Every record belongs to the epoch that wrote it, and no epoch begins after the end of the log."""
    store = opened(left, config())
    epochs = epoch_log(store, left).epochs
    assert all(entry.start_offset <= store.log.end_offset for entry in epochs.entries)
    for _, data in numbered_records(store, "orders", 0):
        entry = epochs.at(peek(data).physical_offset)
        assert entry is not None
        assert b"epoch %d" % entry.epoch in data
    return epochs


@pytest.mark.usefixtures("threadless")
def test_a_crash_between_the_epoch_file_and_the_log_assigns_no_record_to_another_epoch() -> None:
    for number in range(200):
        disk = SimulatedDisk()
        store = opened(disk, config())
        epochs = epoch_log(store, disk)
        write_epoch(store, epochs, 1)
        run(store.flusher.flush())
        disk.stop_after = disk.operations + number
        try:
            write_epoch(store, epochs, 2)
            run(store.flusher.flush())
            write_epoch(store, epochs, 5)
        except Stopped:
            pass
        else:
            assert number > 10
            return
        for left in (disk.after_kill(), *disk.after_power_cut(seed=number)):
            check(left)
    raise AssertionError("the operations never ended")


@pytest.mark.usefixtures("threadless")
def test_a_crash_at_any_moment_of_a_cut_leaves_epochs_that_fit_the_log() -> None:
    """RocketMQ cuts in memory only, and the epoch file after it: a crash revives the records or the entry."""
    for number in range(300):
        disk = SimulatedDisk()
        store = opened(disk, config())
        epochs = epoch_log(store, disk)
        write_epoch(store, epochs, 1)
        cut = store.log.end_offset
        write_epoch(store, epochs, 2)
        run(store.flusher.flush())
        disk.stop_after = disk.operations + number
        try:
            store.request_truncation(cut)
            run(store.close())
            again = opened(disk, config())
            epoch_log(again, disk)
            write_epoch(again, epoch_log(again, disk), 3)
        except Stopped:
            pass
        else:
            assert check(disk.after_kill()) == Epochs([EpochEntry(1, 0), EpochEntry(3, cut)])
            return
        for left in (disk.after_kill(), *disk.after_power_cut(seed=number, count=2)):
            check(left)
    raise AssertionError("the operations never ended")


async def test_entries_of_deleted_files_are_dropped(tmp_path: Path) -> None:
    async with running(Node(tmp_path, 1)) as node:
        for epoch in (1, 2, 3):
            await node.lead(epoch)
            await fill(node.store, 60, seed=epoch)
        second = node.epoch_log.epochs.entries[1]
        for end_offset, _ in node.store.log.oldest(100):
            if end_offset <= second.start_offset:
                removal = node.store.log.detach(end_offset)
                assert removal is not None
                removal.run()
                node.store.log.finish_removal(removal)
        await node.epoch_log.trim()
        first_offset = node.store.log.first_offset
        assert node.epoch_log.epochs.entries[0].start_offset <= first_offset
        assert node.epoch_log.epochs == Epochs(node.epoch_log.epochs.entries).since(first_offset)
        again = EpochLog(node.store, RealDisk(), node.clock)
        await again.open()
        assert again.epochs == node.epoch_log.epochs


async def test_the_first_epoch_of_a_log_without_epochs_covers_all_of_it(tmp_path: Path) -> None:
    async with running(Node(tmp_path, 1)) as node:
        await node.lead(1)
        await fill(node.store, 5)
    (tmp_path / "epochFileCheckpoint").unlink()
    async with running(Node(tmp_path, 1)) as node:
        await node.lead(4)
        assert node.epoch_log.epochs == Epochs([EpochEntry(4, 0)])
