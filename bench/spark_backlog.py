"""Reads a long backlog of small messages with one task and with two: checks completeness and worker memory."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.spark_stage import Stage

TOPIC = "backlog"
_PAUSE_SECONDS = 0.2
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Backlog:
    """Seconds to write it and to read it by the number of tasks, and the most bytes a worker had meanwhile."""

    rows: int
    write_seconds: float
    read_seconds: dict[int, list[float]]
    write_memory: int
    read_memory: int


def measure(stage: Stage, rows: int, say: Callable[[str], None]) -> Backlog:
    say(f"backlog of {rows:,} messages: written")
    stage.create(TOPIC)
    bodies = stage.spark.range(0, rows, 1, 2).selectExpr("CAST(id AS STRING) AS body")
    started = time.perf_counter()
    with _largest_worker() as written:
        bodies.write.format("rocketmq").options(nameServer=stage.namesrv, topic=TOPIC).mode("append").save()
    write_seconds = time.perf_counter() - started
    read_seconds: dict[int, list[float]] = {1: [], 2: []}
    with _largest_worker() as read:
        say(f"backlog of {rows:,} messages: read once to warm up")
        _check(stage, rows, 2)
        for tasks in (1, 2) * _ROUNDS:
            say(f"backlog of {rows:,} messages: read by {tasks}")
            started = time.perf_counter()
            _check(stage, rows, tasks)
            read_seconds[tasks].append(time.perf_counter() - started)
    return Backlog(rows, write_seconds, read_seconds, written[0], read[0])


def _check(stage: Stage, rows: int, tasks: int) -> None:
    """Reads the whole backlog; count and sum show that each number occurs exactly once."""
    table = stage.spark.read.format("rocketmq").options(nameServer=stage.namesrv, subscribe=TOPIC).load()
    numbers = table.coalesce(tasks).selectExpr("CAST(CAST(body AS STRING) AS BIGINT) AS number")
    found = numbers.selectExpr("count(*)", "sum(number)", "sum(number * number % 1000003)").first()
    assert found is not None
    expected = stage.spark.range(rows).selectExpr("count(*)", "sum(id)", "sum(id * id % 1000003)").first()
    if found != expected:
        raise RuntimeError(f"of a backlog of {rows:,} messages came {found}, expected {expected}")


@contextlib.contextmanager
def _largest_worker() -> Iterator[list[int]]:
    """Yields a list with one item: the peak resident bytes of a Spark worker."""
    largest = [0]
    is_over = threading.Event()
    # The peak of a reused process before this run does not count.
    for process in _workers():
        with contextlib.suppress(OSError):
            (process / "clear_refs").write_text("5")

    def watch() -> None:
        while not is_over.wait(_PAUSE_SECONDS):
            largest[0] = max([largest[0], *map(_peak, _workers())])

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield largest
    finally:
        is_over.set()
        watching.join()
        largest[0] = max([largest[0], *map(_peak, _workers())])


def _workers() -> list[Path]:
    """Returns the processes that run Python for the Spark of this one."""
    parents: dict[int, int] = {}
    daemons: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name of the program, in brackets, may have spaces.
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (path / "cmdline").read_bytes().split(b"\0"):
                daemons.append(int(path.name))
    return [Path("/proc", str(process)) for process in daemons if os.getpid() in _ancestors(process, parents)]


def _ancestors(process: int, parents: Mapping[int, int]) -> Iterator[int]:
    while process := parents.get(process, 0):
        yield process


def _peak(process: Path) -> int:
    """Returns the peak resident bytes; 0 if the process has ended."""
    with contextlib.suppress(OSError):
        for line in (process / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
