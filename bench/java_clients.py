"""Java's own benchmark programs, as clients of any broker: what they print, and what the broker pays for it."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.measure import cpu_seconds
from bench.servers import JAVA_HEAP
from tests.apache.maven import classpath
from tests.apache.processes import Process, running, temporary_home

VERSION = "5.5.0"
THREADS = 64
# They print a rate over their last ten seconds, from the tenth on.
WINDOW_SECONDS = 10
_READY_SECONDS_MAX = 90.0
_TPS = re.compile(r"(?:Send|Consume) TPS: (\d+)")
_FAILED = re.compile(r"(?:Send Failed|Response Failed|Consume Fail): (\d+)")


class ClientFailedError(Exception):
    """A benchmark program ended or fell silent; the message ends with what it printed."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Messages per second as the programs print them, and the broker's CPU seconds for each message sent."""

    sent: float
    consumed: float
    cpu_per_message: float
    failed: int


def run_producer(
    namesrv: str, broker_pid: int, *, body_size: int, is_async: bool, has_consumer: bool, seconds: float
) -> Ran:
    """Runs the benchmark Producer, and the Consumer beside it if wanted; measures after a warm-up of ten seconds."""
    arguments = ("-s", str(body_size), "-w", str(THREADS), "-y", str(is_async).lower())
    with contextlib.ExitStack() as held:
        producer = held.enter_context(_program("Producer", namesrv, *arguments))
        consumer = None
        if has_consumer:
            consumer = held.enter_context(_program("Consumer", namesrv, "-w", str(THREADS), "-p", "true"))
            _wait_for_line(consumer, 1)
        _wait_for_line(producer, 1)
        cpu, started, first = cpu_seconds(broker_pid), time.monotonic(), len(_rates(producer))
        _wait_for_line(producer, first + round(seconds))
        paid, taken = cpu_seconds(broker_pid) - cpu, time.monotonic() - started
        sent = _rates(producer)[-1]
        consumed = _rates(consumer)[-1] if consumer is not None else 0.0
        failed = sum(int(count) for count in _FAILED.findall(producer.output().splitlines()[-1]))
    return Ran(sent, consumed, paid / max(sent * taken, 1), failed)


@contextlib.contextmanager
def _program(name: str, namesrv: str, *arguments: str) -> Iterator[Process]:
    with temporary_home() as home:
        command = [
            "java",
            *JAVA_HEAP,
            f"-Duser.home={home}",
            "-Drocketmq.client.logUseSlf4j=true",
            *("-cp", f"{home / 'conf'}:{classpath(VERSION)}", f"org.apache.rocketmq.example.benchmark.{name}"),
            *("-n", namesrv, "-ri", "1000", *arguments),
        ]
        with running(command, home) as process:
            yield process


def _rates(program: Process) -> list[float]:
    return [float(rate) for rate in _TPS.findall(program.output())]


def _wait_for_line(program: Process, count: int) -> None:
    """Returns when a program has printed so many rates."""
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while len(_rates(program)) < count:
        if not program.is_running or time.monotonic() > deadline:
            raise ClientFailedError(f"no {count} rates: {program.output()[-3000:]}")
        time.sleep(0.05)
