"""`python -m bench.spark`: compares topics as Spark tables with Parquet, Kafka and the upper limit of the API."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import spark_backlog, spark_decoding
from bench import spark_tables as tables
from bench.measure import machine, raise_file_limit
from bench.page import replace_part
from bench.report import KEROLOX, Report, Section
from bench.spark_environment import CORES, SparkEnvironment, open_environment
from bench.spark_kafka import VERSION as KAFKA_VERSION
from bench.spark_rates import JOBS, KAFKA, QUICK_JOBS, TOPIC, Rates, ReadComparison, RowWriter, sources

PARTS = ("reads", "store", "decoding", "writes", "backlog")


class SparkRun:
    """The parts of the comparison, in the order in which they run; each returns its tables."""

    def __init__(
        self,
        environment: SparkEnvironment,
        rows: int,
        rounds: int,
        show_status: Callable[[str], None],
        *,
        is_quick: bool,
    ) -> None:
        self._environment = environment
        self._rows = rows
        self._rounds = rounds
        self._show_status = show_status
        self._is_quick = is_quick
        self._row_writer = RowWriter(environment, rows)
        self._reads = ReadComparison(environment, rows, show_status)

    def fill(self) -> None:
        """Create the rows and write them to topics of both systems, which also warms up the sinks."""
        self._show_status(f"{self._rows:,} rows: generating")
        self._row_writer.make()
        self._show_status("rows to a topic")
        self._row_writer.to_topic(TOPIC)
        self._show_status("rows to Kafka")
        self._environment.with_kafka(lambda: self._row_writer.to_kafka(TOPIC))

    def reads(self) -> list[Section]:
        self._show_status("rows to Parquet")
        self._row_writer.to_parquet(self._environment.directory / "rows")
        compared = sources(self._environment, self._rows)
        jobs = QUICK_JOBS if self._is_quick else JOBS
        return tables.reads(self._reads.compare(compared, jobs, self._rounds, is_warm=self._is_quick))

    def store(self) -> list[Section]:
        return [tables.stores(self._reads.store(self._rounds))]

    def decoding(self) -> list[Section]:
        self._show_status("records to columns")
        return [tables.decoding(*spark_decoding.measure(self._environment, self._rounds))]

    def writes(self) -> list[Section]:
        rates: Rates = {KEROLOX: [], KAFKA: []}
        for number in range(self._rounds):
            self._show_status(f"rows to a topic: {KEROLOX}")
            rates[KEROLOX].append(self._row_writer.to_topic(f"{TOPIC}-{number}"))
            self._show_status(f"rows to a topic: {KAFKA}")
            rates[KAFKA] += self._environment.with_kafka(partial(self._row_writer.to_kafka, f"{TOPIC}-{number}"))
        return [tables.writes(rates)]

    def backlog(self, rows: int) -> list[Section]:
        return [tables.backlog(spark_backlog.measure(self._environment, rows, self._show_status))] if rows else []


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Rows per job.")
@click.option("--rounds", default=2, show_default=True, help="Measured rounds, after one warm-up round.")
@click.option("--backlog", default=10_000_000, show_default=True, help="Number of small messages; 0 skips this part.")
@click.option("--kafka/--no-kafka", default=True, show_default=True, help="Include Kafka.")
@click.option("--directory", type=Path, help="Directory for the tables, instead of the system's temporary directory.")
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
    """Measure the data source and sink for Spark."""
    if quick:
        rows, rounds, backlog = min(rows, 20_000), 1, min(backlog, 100_000)
    raise_file_limit()
    # Stop the processes and delete temporary files also when the run is interrupted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    facts = machine()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console, started = Console(stderr=True), time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="kerolox-bench-", dir=directory, ignore_cleanup_errors=True) as workspace,
        Progress(*columns, console=console, refresh_per_second=2, transient=True) as progress,
    ):
        task = progress.add_task("", total=None)

        def show_status(text: str) -> None:
            progress.update(task, description=text, refresh=True)
            if not console.is_terminal:
                # A log file shows how long each step took.
                click.echo(f"{time.monotonic() - started:4.0f} s  {text}", err=True)

        with open_environment(Path(workspace), show_status, has_kafka=kafka) as environment:
            run = SparkRun(environment, rows, rounds, show_status, is_quick=quick)
            run.fill()
            by_part: dict[str, Callable[[], list[Section]]] = {
                "reads": run.reads,
                "store": run.store,
                "decoding": run.decoding,
                # Last, because the store files would contain these messages too.
                "writes": run.writes,
                "backlog": lambda: run.backlog(backlog),
            }
            sections = [each for part, measure in by_part.items() if not parts or part in parts for each in measure()]
            facts |= _facts(environment, rows, rounds)
    title = "Spark: topics as tables"
    if quick:
        title += " (quick run: its figures do not count)"
    report = Report(title, shlex.join(["python", "-m", "bench.spark", *sys.argv[1:]]), facts, sections)
    report.print(Console())
    if markdown is not None:
        replace_part(markdown, report.markdown())


def _facts(environment: SparkEnvironment, rows: int, rounds: int) -> dict[str, str]:
    kafka = f"{KAFKA_VERSION}, with its quorum in the same process; Spark's source and sink of {environment.connector}"
    if environment.kafka is None:
        kafka = f"not measured: {environment.kafka_absence}"
    return {
        "load average at end": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
        "Spark": f"{environment.spark.version}, local[{CORES}]; the brokers are processes on the same cores",
        "Kafka": kafka,
        "rows": f"{rows:,} of 1 KiB in each job",
        "rounds": f"{rounds}, in turns; shown: the median (the best)",
    }


if __name__ == "__main__":
    main()
