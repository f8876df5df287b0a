"""A table and its file."""

import asyncio
import errno
from pathlib import Path

import pytest

from kerolox.broker.persistence import Kept, bump
from kerolox.errors import SystemFailure
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.service import Supervisor
from kerolox.store.tables import JsonTable
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.topics import DataVersion
from tests.broker.name_servers import until
from tests.store.disks import SimulatedDisk, Stopped

PATH = Path("/store/config/table.json")


class Counted:
    """A table with one number in it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.clock = ManualClock()
        self.number = 0
        self.file = Kept(JsonTable(disk, PATH, KVTable), self._snapshot, clock=self.clock, seconds=5, is_copied=True)

    def _snapshot(self) -> KVTable:
        return KVTable({"number": str(self.number)})

    def count(self) -> None:
        self.number += 1
        self.file.changed()


def kept(disk: SimulatedDisk) -> str | None:
    table = JsonTable(disk, PATH, KVTable).load()
    return None if table is None else table.table["number"]


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    return disk


async def test_what_is_saved_survives_a_power_cut_after_every_operation() -> None:
    stop_after = 0
    while True:
        disk = SimulatedDisk()
        disk.make_directory(PATH.parent)
        for directory in PATH.parent.parents:
            disk.sync(directory)
        table = Counted(disk)
        table.count()
        await table.file.save()
        disk.stop_after = disk.operations + stop_after
        table.count()
        try:
            await table.file.save()
            expected = {"2"}
        except Stopped:
            expected = {"1", "2"}
        assert {kept(found) for found in disk.after_power_cut(seed=stop_after)} <= expected
        if expected == {"2"}:
            break
        stop_after += 1
    assert stop_after > 3


async def test_it_is_saved_every_so_often_if_it_has_changed(disk: SimulatedDisk) -> None:
    table = Counted(disk)
    async with Supervisor(table.file):
        table.count()
        await table.clock.advance(5)
        await until(lambda: kept(disk) == "1")
        written = disk.counts.copy()

        await table.clock.advance(20)
        await asyncio.sleep(0.01)

        assert disk.counts["write"] == written["write"]


async def test_the_end_saves_what_has_changed(disk: SimulatedDisk) -> None:
    table = Counted(disk)
    async with Supervisor(table.file):
        table.count()

    assert kept(disk) == "1"


async def test_those_who_wait_together_share_one_save(disk: SimulatedDisk) -> None:
    table = Counted(disk)
    table.count()

    await asyncio.gather(*(table.file.save() for _ in range(10)))

    assert disk.counts["rename"] <= 2
    assert kept(disk) == "1"


async def test_a_full_disk_is_told_to_who_waits_and_tried_again_for_the_others(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    table = Counted(disk)
    async with Supervisor(table.file):
        disk.fail("write", errno.ENOSPC)
        table.count()
        with pytest.raises(SystemFailure, match="changed, but not kept over a restart"):
            await table.file.kept()
        await table.clock.advance(5)
        await until(lambda: caplog.text.count("table.json could not be saved, which is tried again") == 2)

        disk.heal()
        await table.clock.advance(5)
        await until(lambda: kept(disk) == "1")


async def test_a_disk_that_is_still_full_at_the_end_does_not_hold_it_up(disk: SimulatedDisk) -> None:
    table = Counted(disk)
    async with Supervisor(table.file):
        disk.fail("write", errno.ENOSPC)
        table.count()

    disk.heal()
    assert kept(disk) is None


def test_a_version_never_goes_back_though_the_clock_does() -> None:
    version = DataVersion()
    bump(version, 1000)
    bump(version, 900)

    assert (version.counter, version.timestamp) == (2, 1000)
