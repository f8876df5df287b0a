"""A complete job: orders are sent, consumed by a group, and processed by Spark to Parquet and to another topic.

It starts its own cluster, prints each result as soon as it is known, and exits with 0 only if every count agrees.
KEEP=1 leaves cluster and dashboard running, ORDERS=2000 sends fewer than 20,000.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from kerolox.admin import AdminClient
from kerolox.client import ConsumeFrom, Message, Producer, PullConsumer
from kerolox.errors import KeroloxError
from kerolox.runtime.user_dir import home
from kerolox.testing import Cluster

ORDERS = int(os.environ.get("ORDERS", "20000"))
KEEP = os.environ.get("KEEP") == "1"
TOPIC, SUMMARY, GROUP, MEMBERS = "orders", "orders_per_minute", "shipping", 2
PIPELINE = Path(__file__).parent / "orders.toml"
CITIES = ("London", "Paris", "Berlin", "Berlin")
TAGS = ("paid", "shipped", "returned")
BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTES = 10
# Time limit for the members of the group and for the reader of the summary.
TIMEOUT_SECONDS = 300.0

# Minute and city, with the number of orders and their worth in cents.
Summary = dict[tuple[str, str], tuple[int, int]]

console = Console()


def order(number: int) -> dict[str, Any]:
    at = BEGIN + timedelta(minutes=MINUTES) * number / ORDERS
    return {"id": number, "time": at.isoformat(), "customer": number % len(CITIES), "cents": 100 + number * 37 % 9900}


@dataclass
class Results:
    """The results of each step, and its duration."""

    sent: int = 0
    consumed: Counter[int] = field(default_factory=Counter)
    by_member: Counter[str] = field(default_factory=Counter)
    archived: int = 0
    archived_cents: int = 0
    summary: Summary = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, step: str) -> Any:
        started_at = time.perf_counter()
        yield
        self.seconds[step] = time.perf_counter() - started_at


async def send(address: str, found: Results, bar: TaskID, progress: Progress) -> None:
    """Sends all orders concurrently; each counts when the broker has acknowledged it."""
    async with Producer("shop", namesrv_addr=address, auto_batch=True) as producer:
        for first in range(0, ORDERS, 1000):
            numbers = range(first, min(first + 1000, ORDERS))
            messages = [
                Message(TOPIC, json.dumps(order(n)).encode(), tag=TAGS[n % len(TAGS)], keys=[f"order-{n}"])
                for n in numbers
            ]
            await asyncio.gather(*map(producer.send, messages))
            found.sent += len(messages)
            progress.update(bar, completed=found.sent)


async def consume(address: str, found: Results, bar: TaskID, progress: Progress) -> None:
    """Consumes all orders with the members of a group, which share the queues."""
    is_complete = asyncio.Event()

    async def member(name: str) -> None:
        async with PullConsumer(
            GROUP, topics=TOPIC, consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=address
        ) as consumer:
            async for message in consumer:
                found.consumed[json.loads(message.body)["id"]] += 1
                found.by_member[name] += 1
                progress.update(bar, completed=len(found.consumed))
                if len(found.consumed) == ORDERS:
                    is_complete.set()

    members = [asyncio.create_task(member(f"member {number + 1}")) for number in range(MEMBERS)]
    complete = asyncio.create_task(is_complete.wait())
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await asyncio.wait({complete, *members}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (complete, *members):
            task.cancel()
        await asyncio.gather(complete, *members, return_exceptions=True)


async def advance_watermark(address: str) -> None:
    """Sends a message with a later time, so that the watermark closes the last minute."""
    late = {**order(0), "customer": -1, "time": (BEGIN + timedelta(minutes=MINUTES + 20)).isoformat()}
    async with Producer("shop", namesrv_addr=address) as producer:
        await producer.send(Message(TOPIC, json.dumps(late).encode(), tag="tick"))


class Pipeline:
    """The pipeline of orders.toml on its own Spark session, used from a thread."""

    def __init__(self, address: str, folder: Path) -> None:
        from kerolox.spark.pipelines.engine.spec import read_pipeline

        self._spec = read_pipeline(PIPELINE, name_server=address, variables={"FOLDER": str(folder)})
        self._folder = folder
        self._is_stopped = False
        self._run: Any = None
        self._spark: Any = None
        self._open = contextlib.ExitStack()

    def start(self) -> None:
        from kerolox.spark.pipelines.engine.runner import Run
        from kerolox.spark.pipelines.engine.session import session

        # The demo is too short for Java's second compiler to pay off: without it, and with the serial collector, Spark
        # takes 20 s instead of 25 on two cores.
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        # A failed task is retried twice: on a busy machine a Python worker may start too late for Spark.
        with _stderr_to(self._folder / "spark.log"):
            self._spark = self._open.enter_context(session(Run("orders"), "local[2,3]"))

    def run(self, bar: TaskID, progress: Progress, *, is_published: bool = True) -> None:
        """Processes all available messages; a second run continues. The dashboard shows the run if `is_published`."""
        from kerolox.spark.pipelines.engine.build import run_pipeline
        from kerolox.spark.pipelines.engine.runner import Run

        def show(pipeline_progress: Any) -> None:
            rows = sum(flow.rows for flow in pipeline_progress.flows if flow.name == "archive")
            if rows:
                progress.update(bar, completed=max(rows, progress.tasks[bar].completed))

        folder = home() / "pipelines" if KEEP and is_published else None
        self._run = Run("orders", file=PIPELINE, folder=folder, show=show)
        with self._run:
            if self._is_stopped:
                self._run.stop.set()
            run_pipeline(self._spark, self._spec, self._run)

    def count_rows(self, found: Results) -> None:
        table = self._spark.read.parquet(str(self._folder / "orders"))
        row = table.selectExpr("count(DISTINCT id) AS ids", "count(*) AS rows", "sum(cents) AS cents").collect()[0]
        found.archived = row.rows if row.ids == row.rows else -row.rows
        found.archived_cents = row.cents

    def stop(self) -> None:
        self._is_stopped = True
        if self._run is not None:
            self._run.stop.set()

    def close(self) -> None:
        self._open.close()


@contextlib.contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """Redirects stderr of this process and of new child processes to a file, to keep Spark's log off the screen."""
    sys.stderr.flush()
    original = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


async def spark(address: str, folder: Path, found: Results, bar: TaskID, progress: Progress) -> None:
    pipeline = Pipeline(address, folder)
    try:
        with found.timed("starting Spark"):
            await asyncio.to_thread(pipeline.start)
        progress.console.print(f"[green]✓[/green] Spark started in {found.seconds['starting Spark']:.1f} s")
        with found.timed("on Spark"):
            await asyncio.to_thread(pipeline.run, bar, progress)
            await advance_watermark(address)
            # Only the last minute is left to aggregate, so the dashboard keeps the progress of the first run.
            await asyncio.to_thread(pipeline.run, bar, progress, is_published=False)
        await asyncio.to_thread(pipeline.count_rows, found)
    finally:
        pipeline.stop()
        await asyncio.to_thread(pipeline.close)


async def spark_or_reason(address: str, folder: Path, found: Results, bar: TaskID, progress: Progress) -> str | None:
    """Runs the Spark part, a second time if it fails, and returns the reason if that fails, too."""
    from kerolox.spark.pipelines.engine.runner import error_sentence

    async with AdminClient(namesrv_addr=address) as admin:
        await admin.topics.create(SUMMARY)
    for is_last in (False, True):
        try:
            await spark(address, folder, found, bar, progress)
        except Exception as error:
            # An error of Java, Spark or its workers is shown as one sentence; the log has the rest.
            reason = error_sentence(error)
            if is_last:
                return reason
            progress.console.print(f"[yellow]Spark failed, and is retried once:[/yellow] {escape(reason)}")
        else:
            break
    return None


async def read_summary(address: str, found: Results, wanted: int) -> None:
    """Reads the summary topic as any consumer would."""
    async with PullConsumer(
        "reports", topics=SUMMARY, consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=address
    ) as consumer:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS if wanted else 0):
                while len(found.summary) < wanted:
                    line = json.loads((await anext(consumer)).body)
                    found.summary[line["minute"], line["city"]] = line["orders"], line["cents"]


def expected() -> Summary:
    """Returns the expected summary, computed without Spark."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for one in map(order, range(ORDERS)):
        minute = datetime.fromisoformat(one["time"]).replace(second=0, microsecond=0)
        totals = sums[minute.strftime("%Y-%m-%dT%H:%M:%S.000Z"), CITIES[one["customer"]]]
        totals[0] += 1
        totals[1] += one["cents"]
    return {key: (count, cents) for key, (count, cents) in sums.items()}


@contextlib.asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[str, list[str]]]:
    """Yields the address of a NameServer, and the output of `kerolox up` if the cluster keeps running."""
    if KEEP:
        yield await asyncio.to_thread(start_detached, folder)
        return
    async with Cluster(folder / "cluster") as own:
        yield own.namesrv_addr, []


def start_detached(folder: Path) -> tuple[str, list[str]]:
    """Starts a cluster with a dashboard that keeps running, and returns its NameServer and the command's output."""
    kerolox = [sys.executable, "-c", "from kerolox.cli.app import main; main(prog_name='kerolox')"]
    ports = [part for name in ("namesrv", "broker", "dashboard") for part in (f"--{name}-port", "0")]
    started = subprocess.run(  # noqa: S603
        [*kerolox, "up", "--detach", "--data", str(folder / "cluster"), *ports],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = started.stdout.splitlines()
    address = next((line.split()[1] for line in lines if line.split()[:1] == ["NameServer"]), None)
    if address is None:
        raise SystemExit(started.stderr.strip() or started.stdout.strip())
    return address, lines


@dataclass(frozen=True)
class Count:
    """One row of the result: an actual and an expected count."""

    what: str
    found: int
    expected: int
    seconds: float | None = None

    @property
    def agrees(self) -> bool:
        return self.found == self.expected

    @property
    def rate(self) -> str:
        return "" if not self.seconds else f"{self.found / self.seconds:,.0f}"

    def __str__(self) -> str:
        mark = "[green]✓[/green]" if self.agrees else "[red]✗[/red]"
        pace = f" in {self.seconds:.1f} s, {self.rate} a second" if self.seconds else ""
        return f"{mark} {self.what}: {self.found:,} of {self.expected:,}{pace}"


def sent_count(found: Results) -> Count:
    return Count("orders sent, each acknowledged", found.sent, ORDERS, found.seconds["sending"])


def consumed_count(found: Results) -> Count:
    # Distinct orders: delivery is at least once, and a rebalance may repeat some.
    return Count("consumed by the group", len(found.consumed), ORDERS, found.seconds["consuming"])


def spark_counts(found: Results, wanted: Summary) -> list[Count]:
    cents = sum(one["cents"] for one in map(order, range(ORDERS)))
    return [
        Count("rows in Parquet, each order once", found.archived, ORDERS, found.seconds["on Spark"]),
        Count("cents in Parquet", found.archived_cents, cents),
        Count("lines in the summary topic", len(found.summary), len(wanted)),
        Count("orders in the summary", sum(count for count, _ in found.summary.values()), ORDERS),
        Count("cents in the summary", sum(cents for _, cents in found.summary.values()), cents),
    ]


def print_counts(counts: list[Count]) -> None:
    table = Table("what", title="Counts", title_justify="left")
    for name in ("found", "expected", "seconds", "a second"):
        table.add_column(name, justify="right")
    for count in counts:
        colour = "" if count.agrees else "[red]"
        seconds = "" if count.seconds is None else f"{count.seconds:.1f}"
        table.add_row(count.what, f"{colour}{count.found:,}", f"{count.expected:,}", seconds, count.rate)
    console.print(table)


def print_summary(found: Results) -> None:
    shared = ", ".join(f"{name} {count:,}" for name, count in sorted(found.by_member.items()))
    console.print(f"The members of the group shared the orders: {shared}.\n")
    summary = Table("minute", "city", title=f"Topic {SUMMARY}, its first lines", title_justify="left")
    summary.add_column("orders", justify="right")
    summary.add_column("worth", justify="right")
    for (minute, city), (count, worth) in sorted(found.summary.items())[:6]:
        summary.add_row(minute, city, f"{count:,}", f"{worth / 100:,.2f}")
    console.print(summary)


def print_spark_failure(reason: str, folder: Path) -> None:
    log = Path(tempfile.gettempdir()) / "kerolox-demo-spark.log"
    with contextlib.suppress(OSError):
        shutil.copyfile(folder / "spark.log", log)
    console.print(f"[red]The Spark part failed:[/red] {escape(reason)}")
    console.print(
        "The cluster, the producer and the group worked, as the counts above show; only the Spark part is "
        "missing. On a busy machine Python workers may start too late for Spark, which waits 10 s for them: run "
        "`make demo` again when the machine is less busy. Spark needs Java 17 or newer (JAVA_HOME, or else the one "
        f"that was installed with it) and about 1 GiB of memory. Spark's own log: {log}",
        highlight=False,
    )


async def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="kerolox-demo-"))
    try:
        async with cluster(folder) as (address, kept_running):
            return await run_parts(address, folder, kept_running)
    finally:
        if not KEEP:
            shutil.rmtree(folder, ignore_errors=True)


async def run_parts(address: str, folder: Path, kept_running: list[str]) -> int:
    found, wanted = Results(), expected()
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:

        def add_bar(name: str) -> TaskID:
            for task in progress.tasks:
                progress.update(task.id, visible=False)
            return progress.add_task(name, total=ORDERS)

        with found.timed("sending"):
            await send(address, found, add_bar("sending orders"), progress)
        counts = [sent_count(found)]
        progress.console.print(str(counts[0]))
        with found.timed("consuming"):
            await consume(address, found, add_bar(f"consuming in group {GROUP}"), progress)
        counts.append(consumed_count(found))
        progress.console.print(str(counts[-1]))
        reason = await spark_or_reason(address, folder, found, add_bar("through Spark to Parquet"), progress)
        if reason is None:
            await read_summary(address, found, len(wanted))
            counts += spark_counts(found, wanted)
            progress.console.print(*map(str, counts[2:]), sep="\n")
    print_counts(counts)
    for line in kept_running:
        console.print(line, highlight=False)
    if reason is not None:
        print_spark_failure(reason, folder)
        return 1
    print_summary(found)
    if KEEP:
        console.print(f"The table is in {folder / 'orders'}.")
    is_right = all(count.agrees for count in counts) and found.summary == wanted
    console.print("[green]Every count agrees.[/green]" if is_right else "[red]The counts do not agree.[/red]")
    console.print(
        "Next: examples/orders.toml is the pipeline that ran on Spark, as with `kerolox pipeline run`; "
        "docs/how-to/run-pipelines.md explains how to write your own. "
        + (
            "The dashboard shows it all."
            if kept_running
            else "`KEEP=1 make demo` keeps everything running to look around."
        )
    )
    return 0 if is_right else 1


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except KeroloxError as error:
        sys.exit(f"The demo failed: {error}")
