"""Saving a table to its file."""

import asyncio
import errno
from pathlib import Path

import pytest

from kerolox.broker.tables.json_file import JsonFile, bump
from kerolox.errors import SystemFailure
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.service import Supervisor
from kerolox.store.tables import JsonTable
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.topics import DataVersion
from tests.broker.name_servers import until
from tests.store.disks import SimulatedDisk, Stopped

PATH = Path("/store/config/table.json")


class CounterTable:
    """A table with one number in it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.clock = ManualClock()
        self.number = 0
        self.file = JsonFile(
            JsonTable(disk, PATH, KVTable), self._snapshot, clock=self.clock, seconds=5, is_copied=True
        )

    def _snapshot(self) -> KVTable:
        return KVTable({"number": str(self.number)})

    def count(self) -> None:
        self.number += 1
        self.file.changed()


def saved_number(disk: SimulatedDisk) -> str | None:
    table = JsonTable(disk, PATH, KVTable).load()
    return None if table is None else table.table["number"]


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    return disk


async def test_a_saved_table_survives_a_power_cut_after_any_operation() -> None:
    stop_after = 0
    while True:
        disk = SimulatedDisk()
        disk.make_directory(PATH.parent)
        for directory in PATH.parent.parents:
            disk.sync(directory)
        table = CounterTable(disk)
        table.count()
        await table.file.save()
        disk.stop_after = disk.operations + stop_after
        table.count()
        try:
            await table.file.save()
            expected = {"2"}
        except Stopped:
            expected = {"1", "2"}
        assert {saved_number(found) for found in disk.after_power_cut(seed=stop_after)} <= expected
        if expected == {"2"}:
            break
        stop_after += 1
    assert stop_after > 3


async def test_a_table_is_saved_periodically_if_it_has_changed(disk: SimulatedDisk) -> None:
    table = CounterTable(disk)
    async with Supervisor(table.file):
        table.count()
        await table.clock.advance(5)
        await until(lambda: saved_number(disk) == "1")
        written = disk.counts.copy()

        await table.clock.advance(20)
        await asyncio.sleep(0.01)

        assert disk.counts["write"] == written["write"]


async def test_closing_saves_changes(disk: SimulatedDisk) -> None:
    table = CounterTable(disk)
    async with Supervisor(table.file):
        table.count()

    assert saved_number(disk) == "1"


async def test_concurrent_saves_share_one_write(disk: SimulatedDisk) -> None:
    table = CounterTable(disk)
    table.count()

    await asyncio.gather(*(table.file.save() for _ in range(10)))

    assert disk.counts["rename"] <= 2
    assert saved_number(disk) == "1"


async def test_a_full_disk_raises_for_the_caller_and_is_retried_periodically(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    table = CounterTable(disk)
    async with Supervisor(table.file):
        disk.fail("write", errno.ENOSPC)
        table.count()
        with pytest.raises(SystemFailure, match="changed, but not kept over a restart"):
            await table.file.save_for_response()
        await table.clock.advance(5)
        await until(lambda: caplog.text.count("could not save table.json, retrying") == 2)

        disk.heal()
        await table.clock.advance(5)
        await until(lambda: saved_number(disk) == "1")


async def test_a_full_disk_does_not_block_closing(disk: SimulatedDisk) -> None:
    table = CounterTable(disk)
    async with Supervisor(table.file):
        disk.fail("write", errno.ENOSPC)
        table.count()

    disk.heal()
    assert saved_number(disk) is None


def test_the_timestamp_of_a_version_never_decreases() -> None:
    version = DataVersion()
    bump(version, 1000)
    bump(version, 900)

    assert (version.counter, version.timestamp) == (2, 1000)


async def test_save_soon_saves_before_the_interval_ends(disk: SimulatedDisk) -> None:
    table = CounterTable(disk)
    async with Supervisor(table.file):
        table.count()
        await table.clock.advance(1)
        assert saved_number(disk) is None

        table.file.save_soon()
        await table.clock.advance(0.5)
        await until(lambda: saved_number(disk) == "1")
        table.count()
        await table.clock.advance(4)
        assert saved_number(disk) == "1"


async def test_prepare_is_awaited_before_a_save(disk: SimulatedDisk) -> None:
    async def prepare() -> None:
        table.count()

    table = CounterTable(disk)
    file = JsonFile(JsonTable(disk, PATH, KVTable), table._snapshot, clock=table.clock, seconds=5, prepare=prepare)
    table.file = file

    await file.save()

    assert saved_number(disk) == "1"
