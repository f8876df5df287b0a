"""Java's own benchmark programs as clients of any broker: their rates, and the CPU cost of the broker."""

from __future__ import annotations

import contextlib
import enum
import re
import time
from collections.abc import Callable, Iterator, Sequence
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


class Mode(enum.Enum):
    """How the Producer sends."""

    SYNC = "sync"
    ASYNC = "async"
    BATCHES = f"batches of {BATCH_SIZE}"


class JavaRun(NamedTuple):
    """Options of the programs. The threads are divided among the topics, each of which has its own Producer."""

    body_size: int
    mode: Mode = Mode.SYNC
    has_consumer: bool = False
    has_keys: bool = False
    topics: int = 1

    def __str__(self) -> str:
        parts = [self.mode.value, f"{self.body_size} B"]
        parts += ["with keys"] * self.has_keys + ["with the Consumer"] * self.has_consumer
        return ", ".join(parts) + (f", over {self.topics} topics" if self.topics > 1 else "")

    def topic_names(self, prefix: str) -> list[str]:
        return [f"{prefix}-{number}" for number in range(self.topics)]


def run_producer(namesrv: str, broker_pid: int, run: JavaRun, topics: Sequence[str], seconds: float) -> JavaResult:
    """Run the benchmark Producers, and the Consumer if wanted; measure after a warm-up of ten seconds.

    The topics must exist and must not be used by others, because the Consumer reads all messages of its topic.
    """
    arguments = ["-t", ",".join(topics), "-s", str(run.body_size), "-w", str(THREADS // run.topics)]
    if run.mode is Mode.BATCHES:
        arguments += ["-b", str(BATCH_SIZE)]
    else:
        arguments += ["-y", str(run.mode is Mode.ASYNC).lower(), "-k", str(run.has_keys).lower()]
    with contextlib.ExitStack() as stack:
        consumer = None
        if run.has_consumer:
            (topic,) = topics
            reading = ("-t", topic, "-g", topic, "-p", "false", "-w", str(THREADS))
            consumer = stack.enter_context(_program(_CONSUMER, namesrv, *reading))
            _wait_for(consumer, lambda program: "Consumer Started" in program.output(), "start")
        producer = stack.enter_context(_program(_producer(run), namesrv, *arguments))
        _wait_for_rates(producer, 1, run.topics)
        cpu, started, first = cpu_seconds(broker_pid), time.monotonic(), len(rates(producer.output(), run.topics))
        _wait_for_rates(producer, first + round(seconds), run.topics)
        cpu, elapsed = cpu_seconds(broker_pid) - cpu, time.monotonic() - started
        sent = rates(producer.output(), run.topics)[-1]
        consumed = rates(consumer.output())[-1] if consumer is not None else 0.0
        failed = failures(producer.output(), run.topics)
    return JavaResult(sent, consumed, cpu / max(sent * elapsed, 1), failed)


def rates(output: str, producers: int = 1) -> list[float]:
    """Return the rates in the output of a process with so many Producers, each of which prints a line per second.

    Lines do not name their Producer. The sum of as many lines as there are Producers is their common rate: each line
    covers the last ten seconds, so one that is late or early changes little.
    """
    printed = [float(messages or batches) for batches, messages in _TPS.findall(output)]
    complete = len(printed) // producers * producers
    return [sum(printed[first : first + producers]) for first in range(0, complete, producers)]


def failures(output: str, producers: int = 1) -> int:
    """Return how many messages have failed, from the last line of each Producer, which has its total."""
    lines = [line for line in output.splitlines() if _TPS.search(line)]
    return sum(int(count) for line in lines[-producers:] for count in _FAILED.findall(line))


def _producer(run: JavaRun) -> str:
    """Return the program to run: Java's own, or the one for what these have no options for."""
    if run.mode is Mode.BATCHES:
        return _BATCH_PRODUCER
    return _BOUNDED_PRODUCER if run.mode is Mode.ASYNC or run.topics > 1 else _PRODUCER


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


def _wait_for_rates(program: Process, count: int, producers: int) -> None:
    """Return when all Producers of a program have printed `count` rates."""
    _wait_for(program, lambda program: len(rates(program.output(), producers)) >= count, f"{count} rates")


def _wait_for(program: Process, condition: Callable[[Process], bool], what: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while not condition(program):
        if not program.is_running or time.monotonic() > deadline:
            raise ClientFailedError(f"no {what}: {program.output()[-3000:]}")
        time.sleep(0.05)
