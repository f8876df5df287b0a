"""`python -m bench.spark`: compares topics as Spark tables with Parquet, Kafka and the ceiling of the API."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import spark_backlog, spark_decoding
from bench import spark_tables as tables
from bench.measure import machine, raise_file_limit
from bench.page import replace_part
from bench.report import KEROLOX, Report, Section
from bench.spark_kafka import VERSION as KAFKA_VERSION
from bench.spark_rates import JOBS, KAFKA, QUICK_JOBS, TOPIC, Fill, Rates, Reads, sides
from bench.spark_stage import CORES, Stage, open_stage

PARTS = ("reads", "store", "decoding", "writes", "backlog")


class SparkRun:
    """The parts of the comparison, in the order in which they are run; each returns its tables."""

    def __init__(self, stage: Stage, rows: int, rounds: int, say: Callable[[str], None], *, is_quick: bool) -> None:
        self._stage = stage
        self._rows = rows
        self._rounds = rounds
        self._say = say
        self._is_quick = is_quick
        self._fill = Fill(stage, rows)
        self._reads = Reads(stage, rows, say)

    def fill(self) -> None:
        """Creates the rows and writes them to all sources, which also warms up the sinks."""
        self._say(f"{self._rows:,} rows are made")
        self._fill.make()
        self._say("rows to a topic")
        self._fill.to_topic(TOPIC)
        self._say("rows to Kafka")
        self._stage.with_kafka(lambda: self._fill.to_kafka(TOPIC))

    def reads(self) -> list[Section]:
        self._say("rows to Parquet")
        self._fill.to_parquet(self._stage.directory / "rows")
        contestants = sides(self._stage, self._rows)
        jobs = QUICK_JOBS if self._is_quick else JOBS
        return tables.reads(self._reads.compare(contestants, jobs, self._rounds, is_warm=self._is_quick))

    def store(self) -> list[Section]:
        return [tables.stores(self._reads.store(self._rounds))]

    def decoding(self) -> list[Section]:
        self._say("records to columns")
        return [tables.decoding(*spark_decoding.measure(self._stage, self._rounds))]

    def writes(self) -> list[Section]:
        rates: Rates = {KEROLOX: [], KAFKA: []}
        for number in range(self._rounds):
            self._say(f"rows to a topic: {KEROLOX}")
            rates[KEROLOX].append(self._fill.to_topic(f"{TOPIC}-{number}"))
            self._say(f"rows to a topic: {KAFKA}")
            rates[KAFKA] += self._stage.with_kafka(lambda topic=f"{TOPIC}-{number}": self._fill.to_kafka(topic))  # type: ignore[misc]
        return [tables.writes(rates)]

    def backlog(self, rows: int) -> list[Section]:
        return [tables.backlog(spark_backlog.measure(self._stage, rows, self._say))] if rows else []


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Rows per job.")
@click.option("--rounds", default=2, show_default=True, help="Measured rounds, after one warm-up round.")
@click.option("--backlog", default=10_000_000, show_default=True, help="Number of small messages; 0 skips this part.")
@click.option("--kafka/--no-kafka", default=True, show_default=True, help="Include Kafka.")
@click.option("--directory", type=Path, help="Where tables are written, instead of the system's temporary directory.")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Run only this part.")
@click.option("--markdown", type=Path, help="Also write the tables to Spark's part of this page.")
@click.option("--quick", is_flag=True, help="One small round as a smoke test; the figures mean nothing.")
def main(
    rows: int,
    rounds: int,
    backlog: int,
    kafka: bool,
    directory: Path | None,
    parts: tuple[str, ...],
    markdown: Path | None,
    quick: bool,
) -> None:
    """Measures source and sink for Spark."""
    if quick:
        rows, rounds, backlog = min(rows, 20_000), 1, min(backlog, 100_000)
    raise_file_limit()
    # Stop the processes and delete temporary files also when the run is interrupted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    facts = machine()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console, began = Console(stderr=True), time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="kerolox-bench-", dir=directory, ignore_cleanup_errors=True) as place,
        Progress(*columns, console=console, refresh_per_second=2, transient=True) as progress,
    ):
        task = progress.add_task("", total=None)

        def say(text: str) -> None:
            progress.update(task, description=text, refresh=True)
            if not console.is_terminal:
                # Who reads a log wants to see where the minutes go.
                click.echo(f"{time.monotonic() - began:4.0f} s  {text}", err=True)

        with open_stage(Path(place), say, has_kafka=kafka) as stage:
            run = SparkRun(stage, rows, rounds, say, is_quick=quick)
            run.fill()
            by_part: dict[str, Callable[[], list[Section]]] = {
                "reads": run.reads,
                "store": run.store,
                "decoding": run.decoding,
                # Last, since the broker files would contain these messages too.
                "writes": run.writes,
                "backlog": lambda: run.backlog(backlog),
            }
            sections = [each for part, measure in by_part.items() if not parts or part in parts for each in measure()]
            facts |= _facts(stage, rows, rounds)
    title = "Spark: topics as tables"
    if quick:
        title += " (quick run: its figures do not count)"
    report = Report(title, shlex.join(["python", "-m", "bench.spark", *sys.argv[1:]]), facts, sections)
    report.print(Console())
    if markdown is not None:
        replace_part(markdown, report.markdown())


def _facts(stage: Stage, rows: int, rounds: int) -> dict[str, str]:
    kafka = f"{KAFKA_VERSION}, with its quorum in the same process; Spark's source and sink of {stage.connector}"
    if stage.kafka is None:
        kafka = f"not measured to the end: {stage.kafka_absence}"
    return {
        "load average at end": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
        "Spark": f"{stage.spark.version}, local[{CORES}]; the brokers are processes on the same cores",
        "Kafka": kafka,
        "rows": f"{rows:,} of 1 KiB in each job",
        "rounds": f"{rounds}, in turns; shown: the median (the best)",
    }


if __name__ == "__main__":
    main()
