"""`make chaos`: runs the long proofs of the store, and writes what came of them to docs/reference/durability.md.

What a proof has shown is kept in artefacts/chaos until it is run again, so that arguments may choose some by their
names (`make chaos ARGS="model lives"`). What a proof sets can be set otherwise from outside
(`KEROLOX_MODEL_RUNS=1000 make chaos`), and the page then says so.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "durability.md"
FOUND = ROOT / "artefacts" / "chaos"

_INTRODUCTION = """\
# What survives

Written by `make chaos`, which stops, starves and damages stores and opens them again. After each stop every message
that had been promised is read back, and `kerolox store check` must find the store whole. _Promised_ is under SYNC_FLUSH
what a sender was told is stored; under ASYNC_FLUSH the same, but a power cut may take what was not yet synced (as
Apache's does), and then only whether the rest is whole is proved.

Power cuts are simulated: a disk in memory drops, tears and reorders what was not synced. Processes are real ones, on a
real disk, stopped by `strace` at a system call or by SIGKILL at any moment. Where brokers fail under load, what the
producer was told is stored is read back, none of its sends may fail, and those that it had to repeat may come twice.
Where Spark is killed while it reads, its table has to be what was sent: no row is missing, and none is there twice.
Each command stands next to what it showed; `make test` runs a small part of each.

"""
# So much of what a proof that failed has printed.
_SHOWN_MAX = 10_000
_HEADINGS = ("proof", "runs", "messages promised", "lost", "seconds", "command")

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    name: str
    what: str
    tests: str
    settings: dict[str, str] = field(default_factory=dict)
    needs: str | None = None
    # What a proof that holds says of losses.
    lost: str = "0"

    @property
    def environment(self) -> dict[str, str]:
        return {name: os.environ.get(name, value) for name, value in self.settings.items()}

    @property
    def command(self) -> str:
        settings = "".join(f"{name}={value} " for name, value in self.environment.items())
        return f"{settings}pytest {self.tests}"


PROOFS = (
    Proof(
        "model",
        "random puts, flushes, deletions, full disks, stops, kills and power cuts, against a model",
        "tests/store/test_model.py",
        {"KEROLOX_MODEL_RUNS": "20000"},
    ),
    Proof(
        "images",
        "stopped after every file operation: killed, or power cut with what was not synced dropped, torn, reordered",
        "tests/store/test_crash.py",
        {"KEROLOX_CRASH_IMAGES": "40"},
    ),
    Proof("errors", "every file operation fails once, then a kill or a power cut", "tests/store/test_errors.py"),
    Proof(
        "damage",
        "log cut at every byte and each bit flipped in the last records; random bits flipped in every file",
        "tests/store/test_damage.py",
        {"KEROLOX_DAMAGES": "20000"},
        lost="what was hit; a flipped queue id or offset may take one more, since no checksum covers it",
    ),
    Proof(
        "killed-at-calls",
        "process killed at each system call that changes a file",
        "tests/crash/test_processes.py -k killed_at_a_call",
        {"KEROLOX_CRASH_CALLS": "0"},
        needs="strace",
    ),
    Proof(
        "failing-calls",
        "system calls that fail with ENOSPC, EIO, EROFS, EMFILE, once and for good",
        "tests/crash/test_processes.py -k whose_calls_fail",
        {"KEROLOX_CRASH_CALLS": "10"},
        needs="strace",
    ),
    Proof(
        "lives",
        "process killed at any moment, again and again in one directory",
        "tests/crash/test_processes.py -k any_moment",
        {"KEROLOX_CRASH_LIVES": "200"},
    ),
    Proof(
        "failover",
        "two brokers and two NameServers under load: one broker stopped, one killed, all started anew in turn",
        "tests/client/test_failover.py",
        {"KEROLOX_FAILOVER_ROUNDS": "5"},
    ),
    Proof(
        "spark",
        "a topic to Parquet with Spark: drivers killed, Python workers killed, the broker restarted, in mid-batch",
        "tests/spark/test_crashes.py",
        {"KEROLOX_SPARK_KILLS": "10"},
        lost="0; none came twice",
    ),
)


def prove(proof: Proof) -> tuple[Row, bool]:
    """Runs a proof and returns its row, and whether it held."""
    if proof.needs is not None and shutil.which(proof.needs) is None:
        return (proof.what, "-", "-", f"not run: no {proof.needs} here", "-", f"`{proof.command}`"), True
    with tempfile.TemporaryDirectory() as directory:
        notes = Path(directory) / "notes"
        arguments = [sys.executable, "-m", "pytest", *proof.tests.split(), "--timeout=0", "-q"]
        environment = os.environ | proof.environment | {"KEROLOX_PROOFS": str(notes)}
        started = time.monotonic()
        ran = subprocess.run(arguments, cwd=ROOT, env=environment, check=False, text=True, capture_output=True)
        seconds = time.monotonic() - started
        lines = notes.read_text().splitlines() if notes.exists() else []
    code = ran.returncode
    print(f"{proof.name}: {'held' if code == 0 else 'FAILED'} after {seconds:.0f} s", flush=True)
    if code:
        print(ran.stdout[-_SHOWN_MAX:], ran.stderr[-_SHOWN_MAX:], flush=True)
    return _row(proof, [json.loads(line) for line in lines], seconds, is_held=code == 0), code == 0


def _row(proof: Proof, notes: list[dict[str, int]], seconds: float, *, is_held: bool) -> Row:
    runs = sum(note["runs"] for note in notes)
    promised = sum(note.get("promised", 0) for note in notes)
    duplicates = sum(note.get("duplicates", 0) for note in notes)
    lost = f"{proof.lost}{f'; {duplicates:,} came twice' if duplicates else ''}" if is_held else "FAILED"
    return proof.what, f"{runs:,}", f"{promised:,}", lost, f"{seconds:.0f}", f"`{proof.command}`"


def page(rows: list[Row]) -> str:
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.release().split('-')[0]}"
    return f"{_INTRODUCTION}{table}\n\nLast run with {machine}, {os.cpu_count()} cores.\n"


def main(names: list[str]) -> int:
    chosen = [proof for proof in PROOFS if not names or proof.name in names]
    if not chosen:
        print(f"none of {', '.join(names)} is there; known are {', '.join(proof.name for proof in PROOFS)}")
        return 2
    is_held = True
    FOUND.mkdir(parents=True, exist_ok=True)
    # As many at once as there are cores, for each keeps one busy.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for proof in chosen:
            print(f"{proof.name}: {proof.command}", flush=True)
        for proof, (row, held) in zip(chosen, pool.map(prove, chosen), strict=True):
            is_held &= held
            # After each of them, for the last may take an hour.
            (FOUND / proof.name).write_text(json.dumps(row))
            PAGE.write_text(page([_known(proof) for proof in PROOFS]))
    return 0 if is_held else 1


def _known(proof: Proof) -> Row:
    """What came of a proof when it was last run."""
    found = FOUND / proof.name
    if found.exists():
        return tuple(json.loads(found.read_text()))
    return proof.what, "-", "-", "not run", "-", f"`{proof.command}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
