"""Supervised processes: scripts instead of brokers, which exit as the test wants."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerolox.errors import ConfigurationError
from kerolox.local.processes import BrokerProcess, BrokerProcesses
from kerolox.runtime.clock import ManualClock

_SERVING = """
import sys
print("The broker[broker-a, 127.0.0.1:10911] boot success.", flush=True)
sys.stdin.read()
"""
# Serves when there is no file, and complains when there is.
_ONCE = """
import pathlib, sys
if pathlib.Path(sys.argv[1]).exists():
    sys.exit("Error: the store is broken")
pathlib.Path(sys.argv[1]).touch()
print("The broker[broker-a, 127.0.0.1:10911] boot success.", flush=True)
sys.stdin.read()
"""


class SkippingClock(ManualClock):
    """A clock whose sleep returns at once and advances the time."""

    async def sleep(self, seconds: float) -> None:
        await self.advance(seconds)


class Watched:
    """A supervised child process with a clock of the test."""

    def __init__(self, script: str, *arguments: str) -> None:
        self.clock = SkippingClock()
        self.changes: list[tuple[str, int]] = []
        self.child = BrokerProcess(
            "broker-a", [sys.executable, "-c", script, *arguments], clock=self.clock, on_change=self._note
        )
        self.changed = asyncio.Event()

    def _note(self) -> None:
        self.changes.append((self.child.state.state, self.child.state.restarts))
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a change makes the condition true."""
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def kill(self) -> None:
        os.kill(self.child.state.pid, signal.SIGKILL)


async def test_a_process_that_dies_is_restarted_and_reported() -> None:
    watched = Watched(_SERVING)
    await watched.child.open()
    running = asyncio.create_task(watched.child.run())
    first = watched.child.state.pid
    assert watched.child.state.address == "127.0.0.1:10911"

    watched.kill()
    await watched.until(lambda: watched.changes[-1] == ("running", 1))

    assert watched.child.state.pid != first
    assert watched.changes == [("running", 0), ("restarting", 1), ("running", 1)]
    running.cancel()
    await asyncio.wait([running])
    await watched.child.close()


async def test_a_process_that_dies_too_often_is_not_restarted(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    watched = Watched(_ONCE, str(tmp_path / "served"))
    await watched.child.open()
    running = asyncio.create_task(watched.child.run())

    watched.kill()
    async with asyncio.timeout(60):
        await watched.until(lambda: watched.child.state.state == "failed")
        await running

    assert watched.changes[-1] == ("failed", 5)
    assert "broker-a died 6 times within a minute and is not restarted: the store is broken" in caplog.text
    await watched.child.close()


async def test_a_failed_fork_is_retried(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(_SERVING)
    await watched.child.open()
    running = asyncio.create_task(watched.child.run())
    spawn = asyncio.create_subprocess_exec
    refusals = iter([BlockingIOError(11, "Resource temporarily unavailable")])

    async def refusing(*command: str, **options: Any) -> asyncio.subprocess.Process:
        for refusal in refusals:
            raise refusal
        return await spawn(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refusing)

    watched.kill()
    await watched.until(lambda: watched.changes[-1] == ("running", 2))

    assert "the process cannot be started: Resource temporarily unavailable" in caplog.text
    running.cancel()
    await asyncio.wait([running])
    await watched.child.close()


async def test_a_process_that_does_not_start_raises_its_last_output(tmp_path: Path) -> None:
    (tmp_path / "served").touch()
    watched = Watched(_ONCE, str(tmp_path / "served"))

    with pytest.raises(ConfigurationError, match="broker-a did not start: the store is broken"):
        await watched.child.open()


async def test_if_one_process_does_not_start_all_are_stopped(tmp_path: Path) -> None:
    (tmp_path / "served").touch()
    fine, broken = Watched(_SERVING), Watched(_ONCE, str(tmp_path / "served"))

    with pytest.raises(ConfigurationError, match="the store is broken"):
        await BrokerProcesses([fine.child, broken.child]).open()

    with pytest.raises(ProcessLookupError):
        fine.kill()


async def test_endless_output_of_a_child_is_read_and_dropped() -> None:
    loud = _SERVING.replace("sys.stdin.read()", "print('x' * 200_000, file=sys.stderr, flush=True); sys.stdin.read()")
    watched = Watched(loud + "\nprint('over', file=sys.stderr, flush=True)")
    await watched.child.open()

    await watched.child.close()

    assert watched.changes == [("running", 0)]
