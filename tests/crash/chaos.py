"""`make chaos`: runs the long durability tests, and writes their results to docs/reference/durability.md.

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
# Durability

Written by `make chaos`, which stops stores, fails their system calls, fills their disks, damages their files, and
opens them again. After each stop every acknowledged (_promised_) message is read back, and `kerolox store check` must
report no damage. Under SYNC_FLUSH, acknowledged messages survive power cuts. Under ASYNC_FLUSH a power cut may lose
messages that were not flushed yet (as with Apache's broker); then the test only proves that the rest is intact.

Power cuts are simulated: a disk in memory drops, tears and reorders unsynced writes. The other tests stop real
processes on a real disk, with `strace` at a system call or with SIGKILL at a random time. In the tests with failing
brokers under load, every message acknowledged to the producer is read back, no send may fail, and sends that the
producer retried may be delivered twice. In the tests that kill Spark while it reads, the table must equal the messages
sent: no row is missing or duplicated. Each row has the command that runs it; `make test` runs a small part of each.

"""
# Characters shown of the output of a failed proof.
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
    # The "lost" column if the proof holds.
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
        "derived",
        "queues, index, timer files, checkpoint or topics.json garbled, cut, swapped or removed, after stops and kills",
        "tests/store/test_derived_damage.py",
        {"KEROLOX_DERIVED_DAMAGES": "5000"},
        lost="0; a topics.json that cannot be read is refused",
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
        "clocks",
        "a broker whose clock jumps by a minute, an hour, a day or ten years, both ways, killed or stopped in between: "
        "timer messages",
        "tests/crash/test_clocks.py",
        {"KEROLOX_CLOCK_LIVES": "200"},
    ),
    Proof(
        "failover",
        "two brokers and two NameServers under load: one broker stopped, one killed, all started anew in turn",
        "tests/client/test_failover.py",
        {"KEROLOX_FAILOVER_ROUNDS": "5"},
    ),
    Proof(
        "pop",
        "a broker killed under load while a group pops and acknowledges",
        "tests/crash/test_pop.py",
        {"KEROLOX_POP_KILLS": "30"},
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
    """Run a proof and return its row, and whether it held."""
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
    deliveries = sum(note.get("deliveries", 0) for note in notes)
    lost = f"{proof.lost}{f'; {duplicates:,} came twice' if duplicates else ''}" if is_held else "FAILED"
    if is_held and deliveries:
        lost += f"; {deliveries / promised:.4f} deliveries per message"
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
    # One at a time per core: each proof keeps a core busy.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for proof in chosen:
            print(f"{proof.name}: {proof.command}", flush=True)
        for proof, (row, held) in zip(chosen, pool.map(prove, chosen), strict=True):
            is_held &= held
            # Written after each proof, since the last one may take an hour.
            (FOUND / proof.name).write_text(json.dumps(row))
            PAGE.write_text(page([_known(proof) for proof in PROOFS]))
    return 0 if is_held else 1


def _known(proof: Proof) -> Row:
    """The row of the last run of a proof."""
    found = FOUND / proof.name
    if found.exists():
        return tuple(json.loads(found.read_text()))
    return proof.what, "-", "-", "not run", "-", f"`{proof.command}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
