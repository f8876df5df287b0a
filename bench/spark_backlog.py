"""Reads a long backlog of small messages with one task and with two: checks completeness and worker memory."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.spark_environment import SparkEnvironment

TOPIC = "backlog"
_PAUSE_SECONDS = 0.2
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Backlog:
    """Seconds to write a backlog and to read it, by number of tasks, and the peak memory of a worker."""

    rows: int
    write_seconds: float
    read_seconds: dict[int, list[float]]
    write_memory: int
    read_memory: int


def measure(environment: SparkEnvironment, rows: int, show_status: Callable[[str], None]) -> Backlog:
    show_status(f"backlog of {rows:,} messages: writing")
    environment.create(TOPIC)
    bodies = environment.spark.range(0, rows, 1, 2).selectExpr("CAST(id AS STRING) AS body")
    started = time.perf_counter()
    with _largest_worker() as written:
        bodies.write.format("rocketmq").options(nameServer=environment.namesrv, topic=TOPIC).mode("append").save()
    write_seconds = time.perf_counter() - started
    read_seconds: dict[int, list[float]] = {1: [], 2: []}
    with _largest_worker() as read:
        show_status(f"backlog of {rows:,} messages: reading once to warm up")
        _check(environment, rows, 2)
        for tasks in (1, 2) * _ROUNDS:
            show_status(f"backlog of {rows:,} messages: reading with {tasks} tasks")
            started = time.perf_counter()
            _check(environment, rows, tasks)
            read_seconds[tasks].append(time.perf_counter() - started)
    return Backlog(rows, write_seconds, read_seconds, written[0], read[0])


def _check(environment: SparkEnvironment, rows: int, tasks: int) -> None:
    """Read the whole backlog; count and sum show that each number occurs exactly once."""
    table = environment.spark.read.format("rocketmq").options(nameServer=environment.namesrv, subscribe=TOPIC).load()
    numbers = table.coalesce(tasks).selectExpr("CAST(CAST(body AS STRING) AS BIGINT) AS number")
    found = numbers.selectExpr("count(*)", "sum(number)", "sum(number * number % 1000003)").first()
    assert found is not None
    expected = environment.spark.range(rows).selectExpr("count(*)", "sum(id)", "sum(id * id % 1000003)").first()
    if found != expected:
        raise RuntimeError(f"a backlog of {rows:,} messages was read as {found}, expected {expected}")


@contextlib.contextmanager
def _largest_worker() -> Iterator[list[int]]:
    """Yield a list with one item: the peak resident bytes of a Spark worker."""
    largest = [0]
    has_ended = threading.Event()
    # Resets the peak, because worker processes are reused.
    for process in _workers():
        with contextlib.suppress(OSError):
            (process / "clear_refs").write_text("5")

    def watch() -> None:
        while not has_ended.wait(_PAUSE_SECONDS):
            largest[0] = max([largest[0], *map(_peak, _workers())])

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield largest
    finally:
        has_ended.set()
        watching.join()
        largest[0] = max([largest[0], *map(_peak, _workers())])


def _workers() -> list[Path]:
    """Return the Python worker processes of the Spark session in this process."""
    parents: dict[int, int] = {}
    daemons: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The program name in parentheses may contain spaces.
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (path / "cmdline").read_bytes().split(b"\0"):
                daemons.append(int(path.name))
    return [Path("/proc", str(process)) for process in daemons if os.getpid() in _ancestors(process, parents)]


def _ancestors(process: int, parents: Mapping[int, int]) -> Iterator[int]:
    while process := parents.get(process, 0):
        yield process


def _peak(process: Path) -> int:
    """Return the peak resident bytes; 0 if the process has ended."""
    with contextlib.suppress(OSError):
        for line in (process / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
