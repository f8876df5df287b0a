"""Kernel AIO syncs, on a real kernel where it supports them."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.runtime.aio_fsync import AioFsync
from kerolox.runtime.files import RealDisk
from tests.loops import BOTH, Loops


def pytest_asyncio_loop_factories() -> Loops:
    return BOTH


@pytest.fixture
async def syncs() -> AsyncIterator[AioFsync]:
    try:
        made = AioFsync(asyncio.get_running_loop())
    except OSError as error:
        pytest.skip(f"not supported here: {error}")
    yield made
    made.close()


class Callback:
    """Records the result of a sync."""

    def __init__(self) -> None:
        self.errors: list[OSError | None] = []
        self._is_called = asyncio.Event()

    def __call__(self, error: OSError | None) -> None:
        self.errors.append(error)
        self._is_called.set()

    async def wait(self) -> None:
        async with asyncio.timeout(20):
            await self._is_called.wait()


async def test_the_callback_is_called_when_a_sync_has_completed(syncs: AioFsync, tmp_path: Path) -> None:
    file = RealDisk().open(tmp_path / "file", create=True)
    file.write(0, b"something")
    callback = Callback()

    assert file.begin_sync(syncs, callback)
    assert callback.errors == []
    await callback.wait()

    assert callback.errors == [None]
    file.close()


async def test_concurrent_syncs_use_different_descriptors(syncs: AioFsync, tmp_path: Path) -> None:
    file = RealDisk().open(tmp_path / "file", create=True)
    first, second = Callback(), Callback()

    assert file.begin_sync(syncs, first)
    # `sync`, which the caller would run in a thread, opens another descriptor.
    assert not file.begin_sync(syncs, second)
    file.sync()
    assert file.begin_sync(syncs, second)
    await first.wait()
    await second.wait()

    assert (first.errors, second.errors) == ([None], [None])
    file.close()


async def test_a_descriptor_that_cannot_be_synced_raises_without_a_callback(syncs: AioFsync) -> None:
    reading, writing = os.pipe()
    callback = Callback()
    try:
        with pytest.raises(OSError):
            syncs.begin(writing, callback)
    finally:
        os.close(reading)
        os.close(writing)

    with pytest.raises(OSError):
        syncs.begin(writing, callback)
    assert callback.errors == []


async def test_a_failing_callback_does_not_affect_the_others(syncs: AioFsync, tmp_path: Path) -> None:
    class Failing(Callback):
        def __call__(self, error: OSError | None) -> None:
            super().__call__(error)
            raise RuntimeError("callback failed")

    callbacks = [Failing(), Callback(), Failing()]
    with (tmp_path / "file").open("wb") as file:
        for callback in callbacks:
            syncs.begin(file.fileno(), callback)
        for callback in callbacks:
            await callback.wait()

    assert [callback.errors for callback in callbacks] == [[None]] * 3


async def test_at_most_sixteen_syncs_are_pending(syncs: AioFsync, tmp_path: Path) -> None:
    callbacks = [Callback() for _ in range(17)]
    with (tmp_path / "file").open("wb") as file:
        for callback in callbacks[:16]:
            syncs.begin(file.fileno(), callback)
        with pytest.raises(BlockingIOError):
            syncs.begin(file.fileno(), callbacks[16])
        for callback in callbacks[:16]:
            await callback.wait()

        syncs.begin(file.fileno(), callbacks[16])
        await callbacks[16].wait()

    assert all(callback.errors == [None] for callback in callbacks)
