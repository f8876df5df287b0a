"""The main job, end to end: orders are sent, consumed by a group, and go through Spark to Parquet and to another topic.

It brings its own cluster and ends with 0 only if every count agrees. KEEP=1 leaves cluster and dashboard up,
ORDERS=2000 sends fewer than 20,000.
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
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from kerolox.admin import AdminClient
from kerolox.client import ConsumeFrom, Message, Producer, PullConsumer
from kerolox.errors import KeroloxError
from kerolox.runtime.home import home
from kerolox.testing import Cluster

ORDERS = int(os.environ.get("ORDERS", "20000"))
KEEP = os.environ.get("KEEP") == "1"
TOPIC, SUMMARY, GROUP, MEMBERS = "orders", "orders_per_minute", "shipping", 2
PIPELINE = Path(__file__).parent / "orders.toml"
CITIES = ("London", "Paris", "Berlin", "Berlin")
TAGS = ("paid", "shipped", "returned")
BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTES = 10
# No member of the group, and no reader, waits longer for what should be there.
PATIENCE_SECONDS = 300.0

console = Console()


def order(number: int) -> dict[str, Any]:
    at = BEGIN + timedelta(minutes=MINUTES) * number / ORDERS
    return {"id": number, "time": at.isoformat(), "customer": number % len(CITIES), "cents": 100 + number * 37 % 9900}


@dataclass
class Found:
    """What each step has seen, and how long it took."""

    sent: int = 0
    consumed: Counter[int] = field(default_factory=Counter)
    by_member: Counter[str] = field(default_factory=Counter)
    archived: int = 0
    archived_cents: int = 0
    summary: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, step: str) -> Any:
        begun = time.perf_counter()
        yield
        self.seconds[step] = time.perf_counter() - begun


async def send(address: str, found: Found, bar: TaskID, progress: Progress) -> None:
    """Sends all orders, many at once; each is acknowledged by the broker before it counts."""
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


async def consume(address: str, found: Found, bar: TaskID, progress: Progress) -> None:
    """Consumes all orders with the members of a group, who share the queues among them."""
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
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait({complete, *members}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (complete, *members):
            task.cancel()
        await asyncio.gather(complete, *members, return_exceptions=True)


async def tick(address: str) -> None:
    """Tells the pipeline that time has gone on, so that the last minute is over; no customer has sent this."""
    late = {**order(0), "customer": -1, "time": (BEGIN + timedelta(minutes=MINUTES + 20)).isoformat()}
    async with Producer("shop", namesrv_addr=address) as producer:
        await producer.send(Message(TOPIC, json.dumps(late).encode(), tag="tick"))


class Pipeline:
    """The pipeline of orders.toml on a Spark of its own, used from a thread."""

    def __init__(self, address: str, folder: Path) -> None:
        from kerolox.spark.pipelines.declared import read_pipeline

        self._declared = read_pipeline(PIPELINE, name_server=address, variables={"FOLDER": str(folder)})
        self._folder = folder
        self._is_over = False
        self._run: Any = None
        self._spark: Any = None
        self._open = contextlib.ExitStack()

    def start(self) -> None:
        from kerolox.spark.pipelines.running import Run
        from kerolox.spark.pipelines.session import session

        self._spark = self._open.enter_context(session(Run("orders"), "local[2]"))

    def run(self, bar: TaskID, progress: Progress, *, is_told: bool = True) -> None:
        """Runs until all that is there is done; run again it goes on where it was. The dashboard shows what is told."""
        from kerolox.spark.pipelines.building import run_pipeline
        from kerolox.spark.pipelines.running import Run

        def show(told: Any) -> None:
            rows = sum(flow.rows for flow in told.flows if flow.name == "archive")
            if rows:
                progress.update(bar, completed=max(rows, progress.tasks[bar].completed))

        folder = home() / "pipelines" if KEEP and is_told else None
        self._run = Run("orders", file=PIPELINE, folder=folder, show=show)
        with self._run:
            if self._is_over:
                self._run.stop.set()
            run_pipeline(self._spark, self._declared, self._run)

    def look(self, found: Found) -> None:
        table = self._spark.read.parquet(str(self._folder / "orders"))
        row = table.selectExpr("count(DISTINCT id) AS ids", "count(*) AS rows", "sum(cents) AS cents").collect()[0]
        found.archived = row.rows if row.ids == row.rows else -row.rows
        found.archived_cents = row.cents

    def stop(self) -> None:
        self._is_over = True
        if self._run is not None:
            self._run.stop.set()

    def close(self) -> None:
        self._open.close()


async def spark(address: str, folder: Path, found: Found, bar: TaskID, progress: Progress) -> None:
    async with AdminClient(namesrv_addr=address) as admin:
        await admin.topics.create(SUMMARY)
    pipeline = Pipeline(address, folder)
    try:
        with found.timed("starting Spark"):
            await asyncio.to_thread(pipeline.start)
        with found.timed("on Spark"):
            await asyncio.to_thread(pipeline.run, bar, progress)
            await tick(address)
            # Only the last minute is left to be summed up: what the first run says of itself is worth more.
            await asyncio.to_thread(pipeline.run, bar, progress, is_told=False)
        await asyncio.to_thread(pipeline.look, found)
    finally:
        pipeline.stop()
        await asyncio.to_thread(pipeline.close)


async def read_summary(address: str, found: Found, wanted: int) -> None:
    """Reads the summary topic as any consumer would."""
    async with PullConsumer(
        "reports", topics=SUMMARY, consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=address
    ) as consumer:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS if wanted else 0):
                while len(found.summary) < wanted:
                    line = json.loads((await anext(consumer)).body)
                    found.summary[line["minute"], line["city"]] = line["orders"], line["cents"]


def expected() -> dict[tuple[str, str], tuple[int, int]]:
    """Returns what the summary should say, found out without Spark."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for made in map(order, range(ORDERS)):
        minute = datetime.fromisoformat(made["time"]).replace(second=0, microsecond=0)
        both = sums[minute.strftime("%Y-%m-%dT%H:%M:%S.000Z"), CITIES[made["customer"]]]
        both[0] += 1
        both[1] += made["cents"]
    return {key: (count, cents) for key, (count, cents) in sums.items()}


@contextlib.asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[str, list[str]]]:
    """Yields the address of a NameServer, and lines about what stays when this ends."""
    if KEEP:
        yield await asyncio.to_thread(detached, folder)
        return
    async with Cluster(folder / "cluster") as own:
        yield own.namesrv_addr, []


def detached(folder: Path) -> tuple[str, list[str]]:
    """Starts a cluster with a dashboard that outlives this, and returns its NameServer and what it says of itself."""
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


def report(found: Found, wanted: dict[tuple[str, str], tuple[int, int]], folder: Path) -> bool:
    """Prints the tables, and returns whether every count agrees."""
    cents = sum(made["cents"] for made in map(order, range(ORDERS)))
    steps = [
        ("orders sent, each acknowledged", found.sent, ORDERS, found.seconds["sending"]),
        # A group may get some again while its members share out queues: at least once is what it promises.
        ("consumed by the group", len(found.consumed), ORDERS, found.seconds["consuming"]),
        ("rows in Parquet, each order once", found.archived, ORDERS, found.seconds["on Spark"]),
        ("cents in Parquet", found.archived_cents, cents, None),
        ("lines in the summary topic", len(found.summary), len(wanted), None),
        ("orders in the summary", sum(count for count, _ in found.summary.values()), ORDERS, None),
        ("cents in the summary", sum(cents for _, cents in found.summary.values()), cents, None),
    ]
    table = Table("what", title="Counts", title_justify="left")
    for name in ("found", "expected", "seconds", "a second"):
        table.add_column(name, justify="right")
    for what, seen, right, seconds in steps:
        colour = "" if seen == right else "[red]"
        rate = "" if seconds is None else f"{seen / seconds:,.0f}"
        table.add_row(what, f"{colour}{seen:,}", f"{right:,}", "" if seconds is None else f"{seconds:.1f}", rate)
    console.print(table)
    shared = ", ".join(f"{name} {count:,}" for name, count in sorted(found.by_member.items()))
    console.print(
        f"The group has shared them: {shared}. Spark took {found.seconds['starting Spark']:.1f} s to start.\n"
    )
    summary = Table("minute", "city", title=f"Topic {SUMMARY}, its first lines", title_justify="left")
    summary.add_column("orders", justify="right")
    summary.add_column("worth", justify="right")
    for (minute, city), (count, worth) in sorted(found.summary.items())[:6]:
        summary.add_row(minute, city, f"{count:,}", f"{worth / 100:,.2f}")
    console.print(summary)
    if KEEP:
        console.print(f"The table is in {folder / 'orders'}.")
    return all(seen == right for _, seen, right, _ in steps) and found.summary == wanted


async def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="kerolox-demo-"))
    found, wanted = Found(), expected()
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        async with cluster(folder) as (address, kept):
            with Progress(*columns, console=console) as progress:
                names = ("sending orders", f"consuming in group {GROUP}", "through Spark to Parquet")
                sending, consuming, piping = (progress.add_task(name, total=ORDERS) for name in names)
                with found.timed("sending"):
                    await send(address, found, sending, progress)
                with found.timed("consuming"):
                    await consume(address, found, consuming, progress)
                await spark(address, folder, found, piping, progress)
                await read_summary(address, found, len(wanted))
            is_right = report(found, wanted, folder)
            console.print("[green]Every count agrees.[/green]" if is_right else "[red]The counts do not agree.[/red]")
            for line in kept:
                console.print(line, highlight=False)
            console.print(
                "Next: examples/orders.toml is what ran on Spark, as by `kerolox pipeline run`; "
                "docs/how-to/run-pipelines.md says how to write your own. "
                + ("The dashboard shows it all." if kept else "`KEEP=1 make demo` leaves it all up to look around.")
            )
    finally:
        if not KEEP:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except KeroloxError as error:
        sys.exit(f"The demo could not go on: {error}")
