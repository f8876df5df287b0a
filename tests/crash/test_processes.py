"""Real processes on a real disk: killed at a system call, with failing system calls, killed at random."""

import itertools
import os
import random
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.store.check.check import check
from kerolox.store.config import FlushDiskType
from tests.crash.lives import (
    ERRORS,
    STRACE,
    SYSCALLS,
    StoredMessage,
    calls,
    command,
    environment,
    find_problems,
    parse_output,
    run_writer,
)
from tests.crash.proofs import record_proof
from tests.crash.writer import configuration

# Number of system calls of each kind that are tried, spread over the run (0: all), and number of random kills.
# `make chaos` sets more.
CALLS = int(os.environ.get("KEROLOX_CRASH_CALLS", "1"))
LIVES = int(os.environ.get("KEROLOX_CRASH_LIVES", "2"))
# Number of checks of a store while it is written.
CHECKS = 10
# The subset that `make test` runs.
NAMES = SYSCALLS if CALLS != 1 else ("pwrite64", "fdatasync", "io_submit", "fallocate")
# One of them must refuse messages: all writes from the third on fail, before most messages are sent.
FAILURES = (("pwrite64", "ENOSPC", "+"), ("fdatasync", "EIO", ""), ("fallocate", "EMFILE", "+"))

pytestmark = pytest.mark.timeout(0)

needs_strace = pytest.mark.skipif(
    STRACE is None, reason="needs strace, which make cannot install; make chaos uses it too"
)


def chosen(numbers: list[int]) -> list[int]:
    if not CALLS or len(numbers) <= CALLS:
        return numbers
    return [numbers[(2 * at + 1) * len(numbers) // (2 * CALLS)] for at in range(CALLS)]


def injected(
    directory: Path, flush: FlushDiskType, name: str, what: str
) -> tuple["subprocess.CompletedProcess[str]", list[StoredMessage]]:
    return run_writer(directory, flush, "-e", f"trace={name}", "-e", f"inject={name}:{what}", "-o", os.devnull)


@needs_strace
@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_process_killed_at_a_call_loses_no_acknowledged_message(flush: FlushDiskType, tmp_path: Path) -> None:
    runs = promised = killed = 0
    counted = calls(tmp_path / "counted", flush, tmp_path / "trace")
    for name in NAMES:
        for number in chosen(counted[name]):
            directory = tmp_path / f"{name}-{number}"

            ended, made = injected(directory, flush, name, f"signal=KILL:when={number}")

            # A thread may make fewer calls in another run.
            assert ended.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), ended.stderr
            assert find_problems(directory, flush, made) == [], (name, number)
            runs += 1
            promised += len(made)
            killed += ended.returncode != 0
    assert killed > 0
    record_proof(f"killed at a call, {flush.value}", runs=runs, promised=promised, killed=killed)


def failures() -> Iterator[tuple[str, str, str]]:
    """Yield each call with each error, injected once and permanently."""
    for name, error, forever in itertools.product(NAMES, ERRORS, ("", "+")):
        # Without openat the interpreter itself could not continue.
        if (name, forever) != ("openat", "+"):
            yield name, error, forever


@needs_strace
@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_process_whose_calls_fail_loses_no_acknowledged_message(flush: FlushDiskType, tmp_path: Path) -> None:
    runs = promised = refused = 0
    counted = calls(tmp_path / "counted", flush, tmp_path / "trace")
    for name, error, forever in FAILURES if CALLS == 1 else failures():
        for number in chosen(counted[name]) if CALLS != 1 else counted[name][2:3] or counted[name][:1]:
            directory = tmp_path / f"{name}-{number}-{error}{forever}"

            ended, made = injected(directory, flush, name, f"error={error}:when={number}{forever}")

            assert ended.returncode == 0, (directory, ended.stderr)
            assert find_problems(directory, flush, made) == [], directory
            runs += 1
            promised += len(made)
            refused += len(made) < 24
    assert refused > 0
    record_proof(f"failing calls, {flush.value}", runs=runs, promised=promised, refused=refused)


@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_process_killed_at_any_moment_loses_no_acknowledged_message(flush: FlushDiskType, tmp_path: Path) -> None:
    chance = random.Random(LIVES)
    everything: list[StoredMessage] = []
    for life in range(LIVES):
        first = life * 1_000_000
        with subprocess.Popen(
            command(tmp_path / "store", flush, first, 0), stdout=subprocess.PIPE, env=environment()
        ) as process:
            # The first line reports that the store is open.
            output = _read_until(process, lines=chance.randrange(2, 400))
            # The writer is running; kill it at a random point.
            select.select([], [], [], chance.random() * 0.02)
            process.kill()
            assert process.stdout is not None
            output += process.stdout.read()
            process.wait()
        made = parse_output(output.decode())
        assert made

        assert find_problems(tmp_path / "store", flush, made) == [], life
        everything += made
    assert find_problems(tmp_path / "store", flush, everything) == []
    record_proof(f"killed at any moment, {flush.value}", runs=LIVES, promised=len(everything))


@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_store_can_be_checked_while_it_is_written(flush: FlushDiskType, tmp_path: Path) -> None:
    seen = 0
    with subprocess.Popen(
        command(tmp_path / "store", flush, 0, 0), stdout=subprocess.PIPE, env=environment()
    ) as process:
        for _ in range(CHECKS):
            _read_until(process, lines=20)

            report = check(configuration(tmp_path / "store", flush))

            assert (report.complaints, report.is_clean) == ([], False)
            assert report.records >= max(seen, 20)
            seen = report.records
        process.kill()
    record_proof(f"checked meanwhile, {flush.value}", runs=CHECKS, promised=seen)


def _read_until(process: "subprocess.Popen[bytes]", lines: int) -> bytes:
    assert process.stdout is not None
    output = b""
    while output.count(b"\n") < lines:
        piece = os.read(process.stdout.fileno(), 65536)
        assert piece, "it ended by itself"
        output += piece
    return output
