"""Syncs without threads, on a real kernel where it offers them."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.runtime.files import RealDisk
from kerolox.runtime.kernel_syncs import KernelSyncs
from tests.loops import BOTH, Loops


def pytest_asyncio_loop_factories() -> Loops:
    return BOTH


@pytest.fixture
async def syncs() -> AsyncIterator[KernelSyncs]:
    try:
        made = KernelSyncs(asyncio.get_running_loop())
    except OSError as error:
        pytest.skip(f"not offered here: {error}")
    yield made
    made.close()


class Told:
    """What was told of a sync, and when."""

    def __init__(self) -> None:
        self.errors: list[OSError | None] = []
        self._is_told = asyncio.Event()

    def __call__(self, error: OSError | None) -> None:
        self.errors.append(error)
        self._is_told.set()

    async def wait(self) -> None:
        async with asyncio.timeout(20):
            await self._is_told.wait()


async def test_a_sync_is_told_when_it_has_ended(syncs: KernelSyncs, tmp_path: Path) -> None:
    file = RealDisk().open(tmp_path / "file", create=True)
    file.write(0, b"something")
    told = Told()

    assert file.begin_sync(syncs, told)
    assert told.errors == []
    await told.wait()

    assert told.errors == [None]
    file.close()


async def test_syncs_at_the_same_time_have_a_descriptor_each(syncs: KernelSyncs, tmp_path: Path) -> None:
    file = RealDisk().open(tmp_path / "file", create=True)
    first, second = Told(), Told()

    assert file.begin_sync(syncs, first)
    # A thread that is asked instead opens another.
    assert not file.begin_sync(syncs, second)
    file.sync()
    assert file.begin_sync(syncs, second)
    await first.wait()
    await second.wait()

    assert (first.errors, second.errors) == ([None], [None])
    file.close()


async def test_what_cannot_be_synced_is_refused_at_once(syncs: KernelSyncs) -> None:
    reading, writing = os.pipe()
    told = Told()
    try:
        with pytest.raises(OSError):
            syncs.begin(writing, told)
    finally:
        os.close(reading)
        os.close(writing)

    with pytest.raises(OSError):
        syncs.begin(writing, told)
    assert told.errors == []


async def test_a_failure_of_one_who_is_told_does_not_concern_others(syncs: KernelSyncs, tmp_path: Path) -> None:
    class Failing(Told):
        def __call__(self, error: OSError | None) -> None:
            super().__call__(error)
            raise RuntimeError("whatever")

    tolds = [Failing(), Told(), Failing()]
    with (tmp_path / "file").open("wb") as file:
        for told in tolds:
            syncs.begin(file.fileno(), told)
        for told in tolds:
            await told.wait()

    assert [told.errors for told in tolds] == [[None]] * 3


async def test_sixteen_may_be_under_way(syncs: KernelSyncs, tmp_path: Path) -> None:
    tolds = [Told() for _ in range(17)]
    with (tmp_path / "file").open("wb") as file:
        for told in tolds[:16]:
            syncs.begin(file.fileno(), told)
        with pytest.raises(BlockingIOError):
            syncs.begin(file.fileno(), tolds[16])
        for told in tolds[:16]:
            await told.wait()

        syncs.begin(file.fileno(), tolds[16])
        await tolds[16].wait()

    assert all(told.errors == [None] for told in tolds)
