"""Lives of a writing process: how it is run, how it ends, and what must be there afterwards."""

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

from kerolox.message.record import decode
from kerolox.store.checking.check import check
from kerolox.store.checking.sizes import found_settings
from kerolox.store.configuration import FlushDiskType
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.crash.writer import body_of, configuration, place_of

ROOT = Path(__file__).parents[2]
STRACE = shutil.which("strace")
SYSCALLS = ("pwrite64", "fdatasync", "io_submit", "fsync", "ftruncate", "fallocate", "rename", "unlink", "openat")
ERRORS = ("ENOSPC", "EIO", "EROFS", "EMFILE")
_TIMEOUT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Promise:
    number: int
    topic: str
    queue_id: int
    queue_offset: int


def command(directory: Path, flush: FlushDiskType, first: int, count: int) -> list[str]:
    return [sys.executable, "-m", "tests.crash.writer", str(directory), flush.value, str(first), str(count)]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def live(
    directory: Path, flush: FlushDiskType, *options: str, count: int = 24
) -> tuple[subprocess.CompletedProcess[str], list[Promise]]:
    """Runs a writer, under strace if there are options for it, and returns how it ended and what it promised."""
    arguments = command(directory, flush, 0, count)
    if options:
        assert STRACE is not None
        arguments = [STRACE, "-f", "-qq", *options, *arguments]
    ended = subprocess.run(
        arguments, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False, cwd=ROOT, env=environment()
    )
    return ended, promises(ended.stdout)


def promises(output: str) -> list[Promise]:
    """Returns what whole lines promise; the last may have been cut off."""
    made = []
    for line in output.splitlines(keepends=True):
        words = line.split()
        if len(words) == 4 and line.endswith("\n"):
            made.append(Promise(int(words[0]), words[1], int(words[2]), int(words[3])))
    return made


def calls(directory: Path, flush: FlushDiskType, trace: Path) -> dict[str, list[int]]:
    """Returns the calls of each kind that have to do with the store, by their number in their thread."""
    options = ("-y", "-s", "0", "-e", f"trace={','.join(SYSCALLS)}", "-o", str(trace))
    ended, _ = live(directory, flush, *options)
    assert ended.returncode == 0, ended.stderr
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[str, set[int]] = {name: set() for name in SYSCALLS}
    threads = re.findall(r"^(\d+) +(\w+)\((.*)$", trace.read_text(), re.MULTILINE)
    main_thread = threads[0][0]
    for thread, name, rest in threads:
        if name not in found:
            continue
        counts[thread, name] += 1
        # Of what the kernel is given to do nothing is shown, and it is given nothing else.
        is_own = str(directory) in rest or name == "io_submit"
        # What other threads open comes early in their lives, when the first is not yet done with its own imports.
        if is_own and (name != "openat" or thread == main_thread):
            found[name].add(counts[thread, name])
    return {name: sorted(numbers) for name, numbers in found.items()}


def lost(directory: Path, flush: FlushDiskType, made: Iterable[Promise]) -> list[str]:
    """Opens the store, reads each message that was promised, closes and checks it; returns what was wrong."""
    return asyncio.run(_lost(directory, flush, list(made)))


async def _lost(directory: Path, flush: FlushDiskType, made: list[Promise]) -> list[str]:
    store = Store(configuration(directory, flush))
    recovered = store.recover()
    wrong = [f"damage: {damage}" for damage in recovered.damages]
    for promise in made:
        got = store.reader.get(promise.topic, promise.queue_id, promise.queue_offset, count_max=1)
        if got.status is not GetStatus.FOUND or decode(got.records[0], check_crc=True).body != body_of(promise.number):
            wrong.append(f"lost: {promise}")
        elif place_of(promise.number) != (promise.topic, promise.queue_id):
            wrong.append(f"elsewhere: {promise}")
        elif len(store.reader.find(promise.topic, b"k%d" % promise.number)) != 1:
            wrong.append(f"not found by its key: {promise}")
    await store.close()
    report = check(found_settings(directory))
    wrong += [f"check: {complaint}" for complaint in report.complaints + report.notes]
    if not report.is_clean:
        wrong.append("check: it was not stopped cleanly")
    return wrong
