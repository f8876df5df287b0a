"""`python -m bench.store`: compares speed and size of the store with plain writes and reads in one run."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import store_tables as tables
from bench.measure import MIB, machine, raise_file_limit
from bench.page import replace_part
from bench.report import Report, Section
from bench.store_queues import many_queues
from bench.store_rates import Load, append_rates, read_rates
from bench.store_recovery import GIB, MIXED, Kind, recoveries
from kerolox.store.config import FlushDiskType

T = TypeVar("T")

BODY_SIZES = (128, 1024, 64 * 1024)
QUEUE_COUNTS = (1, 1_000)
RECOVERY_KINDS = (Kind(1024, 1), Kind(1024, 1 / 2, has_keys=True), Kind(128, 1 / 8), Kind(MIXED, 1 / 4))
MESSAGES_MAX = 100_000


class StoreRun:
    """The parts of the benchmark, in the order in which they run; each returns its tables."""

    def __init__(self, rounds: int, size: int, directory: Path | None, show_status: Callable[[str], None]) -> None:
        self._rounds = rounds
        self._size = size
        self._directory = directory
        self._show_status = show_status
        # A sixteenth of the recovered size is enough to measure a rate.
        self._loads = [
            Load(body_size, queues, max(1_000, min(MESSAGES_MAX, size // 16 // body_size)))
            for body_size in BODY_SIZES
            for queues in QUEUE_COUNTS
        ]

    def rates(self) -> list[Section]:
        sections = []
        for flush in FlushDiskType:
            found = {load: self._in_directory(append_rates, load, flush, self._rounds) for load in self._loads}
            sections.append(tables.appends(flush, found))
        read = {load: self._in_directory(read_rates, load, self._rounds) for load in self._loads}
        return [*sections, tables.reads(read)]

    def recovery(self) -> list[Section]:
        found = {kind: self._in_directory(recoveries, kind, self._size, self._rounds) for kind in RECOVERY_KINDS}
        return [tables.recovery(found)]

    def queues(self, count: int) -> list[Section]:
        return [tables.queues(count, *self._in_directory(many_queues, count))]

    def _in_directory(self, measure: Callable[..., T], *args: object) -> T:
        with tempfile.TemporaryDirectory(prefix="kerolox-bench-", dir=self._directory) as directory:
            return measure(*args, Path(directory), self._show_status)


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Number of rounds.")
@click.option("--mebibytes", default=1024, show_default=True, help="Size of the recovered log in MiB.")
@click.option("--queues", default=50_000, show_default=True, help="Number of queues.")
@click.option("--directory", type=Path, help="Directory for the stores, instead of the system's temporary directory.")
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(["rates", "recovery", "queues"]), help="Only this part."
)
@click.option("--markdown", type=Path, help="Also write the tables to the store's part of this page.")
@click.option("--quick", is_flag=True, help="One small round as a smoke test; the figures mean nothing.")
def main(
    rounds: int,
    mebibytes: int,
    queues: int,
    directory: Path | None,
    parts: tuple[str, ...],
    markdown: Path | None,
    quick: bool,
) -> None:
    """Measure the store."""
    if quick:
        rounds, mebibytes, queues = 1, min(mebibytes, 64), min(queues, 2_000)
    raise_file_limit()
    # Delete temporary files also when the run is interrupted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    facts = {name: fact for name, fact in machine().items() if name != "Java"}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2, transient=True) as progress:
        task = progress.add_task("", total=None)
        run = StoreRun(
            rounds, mebibytes * MIB, directory, lambda text: progress.update(task, description=text, refresh=True)
        )
        by_part: dict[str, Callable[[], list[Section]]] = {
            "rates": run.rates,
            "recovery": run.recovery,
            "queues": lambda: run.queues(queues),
        }
        sections = [section for part, measure in by_part.items() if not parts or part in parts for section in measure()]
    facts |= {
        "load average at end": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
        "rounds": f"{rounds}, in turns with the plain ones; shown: the median (the best)",
        "log that is recovered": f"{mebibytes * MIB / GIB:g} GiB",
    }
    title = "Store: appending, reading, opening"
    if quick:
        title += " (quick run: its figures do not count)"
    report = Report(title, shlex.join(["python", "-m", "bench.store", *sys.argv[1:]]), facts, sections)
    report.print(Console())
    if markdown is not None:
        replace_part(markdown, report.markdown())


if __name__ == "__main__":
    main()
