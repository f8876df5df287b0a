"""Runs a writer process, and checks the store that it leaves behind."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kerolox.message.records.record import decode
from kerolox.store.check.check import check
from kerolox.store.check.file_sizes import detect_settings
from kerolox.store.config import FlushDiskType
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.crash.writer import body_of, configuration, queue_of

ROOT = Path(__file__).parents[2]
STRACE = shutil.which("strace")
SYSCALLS = ("pwrite64", "fdatasync", "io_submit", "fsync", "ftruncate", "fallocate", "rename", "unlink", "openat")
ERRORS = ("ENOSPC", "EIO", "EROFS", "EMFILE")
_TIMEOUT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class StoredMessage:
    number: int
    topic: str
    queue_id: int
    queue_offset: int


def command(directory: Path, flush: FlushDiskType, first: int, count: int) -> list[str]:
    return [sys.executable, "-m", "tests.crash.writer", str(directory), flush.value, str(first), str(count)]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def run_writer(
    directory: Path, flush: FlushDiskType, *options: str, count: int = 24
) -> tuple[subprocess.CompletedProcess[str], list[StoredMessage]]:
    """Run a writer, under strace if it gets options; return how it ended and which messages it reported as stored."""
    arguments = command(directory, flush, 0, count)
    if options:
        assert STRACE is not None
        arguments = [STRACE, "-f", "-qq", *options, *arguments]
    ended = subprocess.run(
        arguments, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False, cwd=ROOT, env=environment()
    )
    return ended, parse_output(ended.stdout)


def parse_output(output: str) -> list[StoredMessage]:
    """Return the messages that complete lines report; the last line may be cut off."""
    made = []
    for line in output.splitlines(keepends=True):
        words = line.split()
        if len(words) == 4 and line.endswith("\n"):
            made.append(StoredMessage(int(words[0]), words[1], int(words[2]), int(words[3])))
    return made


def calls(directory: Path, flush: FlushDiskType, trace: Path) -> dict[str, list[int]]:
    """Return for each system call on store files its ordinal in its thread, which strace needs to inject faults."""
    options = ("-y", "-s", "0", "-e", f"trace={','.join(SYSCALLS)}", "-o", str(trace))
    ended, _ = run_writer(directory, flush, *options)
    assert ended.returncode == 0, ended.stderr
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[str, set[int]] = {name: set() for name in SYSCALLS}
    threads = re.findall(r"^(\d+) +(\w+)\((.*)$", trace.read_text(), re.MULTILINE)
    main_thread = threads[0][0]
    for thread, name, rest in threads:
        if name not in found:
            continue
        counts[thread, name] += 1
        # strace shows no path for io_submit; only the store uses it.
        is_own = str(directory) in rest or name == "io_submit"
        # Other threads open files while the main thread still imports modules, so their ordinals are not stable.
        if is_own and (name != "openat" or thread == main_thread):
            found[name].add(counts[thread, name])
    return {name: sorted(numbers) for name, numbers in found.items()}


def find_problems(directory: Path, flush: FlushDiskType, made: Iterable[StoredMessage]) -> list[str]:
    """Recover the store, read each reported message, close and check the store; return the problems."""
    return asyncio.run(_find_problems(directory, flush, list(made)))


async def _find_problems(directory: Path, flush: FlushDiskType, made: list[StoredMessage]) -> list[str]:
    store = Store(configuration(directory, flush))
    recovered = store.recover()
    wrong = [f"damage: {damage}" for damage in recovered.damages]
    for message in made:
        got = store.reader.get(message.topic, message.queue_id, message.queue_offset, count_max=1)
        if got.status is not GetStatus.FOUND or decode(got.records[0], check_crc=True).body != body_of(message.number):
            wrong.append(f"lost: {message}")
        elif queue_of(message.number) != (message.topic, message.queue_id):
            wrong.append(f"in another queue: {message}")
        elif len(store.reader.find(message.topic, b"k%d" % message.number)) != 1:
            wrong.append(f"not found by its key: {message}")
    await store.close()
    report = check(detect_settings(directory))
    wrong += [f"check: {complaint}" for complaint in report.complaints + report.notes]
    if not report.is_clean:
        wrong.append("check: the store was not closed cleanly")
    return wrong
