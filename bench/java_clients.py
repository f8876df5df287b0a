"""Java's own benchmark programs as clients of any broker: their rates, and the CPU cost of the broker."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.measure import cpu_seconds
from bench.servers import JAVA_HEAP
from tests.apache.maven import classpath
from tests.apache.processes import Process, running, temporary_home

VERSION = "5.5.0"
THREADS = 64
BATCH_SIZE = 32
# Maximum messages in flight of the asynchronous Producer.
IN_FLIGHT_MAX = 1024
# From the tenth second on, they print the rate over the last ten seconds.
WINDOW_SECONDS = 10
_PRODUCER, _BATCH_PRODUCER, _CONSUMER = (
    f"org.apache.rocketmq.example.benchmark.{name}" for name in ("Producer", "BatchProducer", "Consumer")
)
# A source file, which Java compiles at start-up.
_BOUNDED_PRODUCER = str(Path(__file__).parent / "BoundedProducer.java")
_READY_SECONDS_MAX = 90.0
# For batches, TPS counts batches and MPS messages.
_TPS = re.compile(r"(?:Send|Consume) TPS: (\d+)(?: \| Send MPS: (\d+))?")
_FAILED = re.compile(r"(?:Send Failed|Response Failed|Consume Fail): (\d+)")


class ClientFailedError(Exception):
    """A benchmark program ended or timed out; the message ends with its output."""


@dataclass(frozen=True, slots=True)
class JavaResult:
    """Messages per second as the programs print them, and the broker's CPU seconds per sent message."""

    sent: float
    consumed: float
    cpu_per_message: float
    failed: int


class JavaRun(NamedTuple):
    """Options of the programs."""

    body_size: int
    is_async: bool = False
    is_batch: bool = False
    has_consumer: bool = False

    def __str__(self) -> str:
        how = f"batches of {BATCH_SIZE}" if self.is_batch else "async" if self.is_async else "sync"
        return f"{how}, {self.body_size} B" + (", with the Consumer" if self.has_consumer else "")


def run_producer(namesrv: str, broker_pid: int, run: JavaRun, topic: str, seconds: float) -> JavaResult:
    """Run a benchmark Producer, and the Consumer if wanted; measure after a warm-up of ten seconds.

    The topic must exist and must not be used by others, because the Consumer reads all of its messages.
    """
    arguments = ["-t", topic, "-s", str(run.body_size), "-w", str(THREADS)]
    arguments += ["-b", str(BATCH_SIZE)] if run.is_batch else ["-y", str(run.is_async).lower()]
    with contextlib.ExitStack() as stack:
        consumer = None
        if run.has_consumer:
            reading = ("-t", topic, "-g", topic, "-p", "false", "-w", str(THREADS))
            consumer = stack.enter_context(_program(_CONSUMER, namesrv, *reading))
            _wait_for(consumer, lambda program: "Consumer Started" in program.output(), "start")
        name = _BATCH_PRODUCER if run.is_batch else _BOUNDED_PRODUCER if run.is_async else _PRODUCER
        producer = stack.enter_context(_program(name, namesrv, *arguments))
        _wait_for_line(producer, 1)
        cpu, started, first = cpu_seconds(broker_pid), time.monotonic(), len(_rates(producer))
        _wait_for_line(producer, first + round(seconds))
        cpu, elapsed = cpu_seconds(broker_pid) - cpu, time.monotonic() - started
        sent = _rates(producer)[-1]
        consumed = _rates(consumer)[-1] if consumer is not None else 0.0
        failed = sum(int(count) for count in _FAILED.findall(producer.output().splitlines()[-1]))
    return JavaResult(sent, consumed, cpu / max(sent * elapsed, 1), failed)


@contextlib.contextmanager
def _program(name: str, namesrv: str, *arguments: str) -> Iterator[Process]:
    with temporary_home() as home:
        command = [
            "java",
            *JAVA_HEAP,
            f"-Duser.home={home}",
            "-Drocketmq.client.logUseSlf4j=true",
            f"-DinFlightMax={IN_FLIGHT_MAX}",
            *("-cp", f"{home / 'conf'}:{classpath(VERSION)}", name),
            *("-n", namesrv, "-ri", "1000", *arguments),
        ]
        with running(command, home) as process:
            yield process


def _rates(program: Process) -> list[float]:
    return [float(messages or batches) for batches, messages in _TPS.findall(program.output())]


def _wait_for_line(program: Process, count: int) -> None:
    """Return when a program has printed `count` rates."""
    _wait_for(program, lambda program: len(_rates(program)) >= count, f"{count} rates")


def _wait_for(program: Process, condition: Callable[[Process], bool], what: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while not condition(program):
        if not program.is_running or time.monotonic() > deadline:
            raise ClientFailedError(f"no {what}: {program.output()[-3000:]}")
        time.sleep(0.05)
