"""The load generator: sends encoded frames, and counts, checks and times the responses, in a separate process."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from bench.connections import connect_for_load
from bench.exchange import exchange_pipelined, exchange_singly
from bench.frames import Ring
from bench.measure import cpu_seconds, raise_file_limit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Load:
    """Frames, target and duration of a load; the CPU time of `pid` is read before and after."""

    port: int
    pid: int
    ring: Ring
    connections: int
    in_flight: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a load. Latencies are in seconds, from sending a request to receiving its response."""

    answered: int
    seconds: float
    server_cpu_seconds: float
    generator_cpu_seconds: float
    p50: float
    p99: float
    samples: list[bytes]

    @property
    def rate(self) -> float:
        return self.answered / self.seconds

    @property
    def cpu_per_request(self) -> float:
        return self.server_cpu_seconds / self.answered


class Generator:
    """Runs loads one after the other in a separate process."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=raise_file_limit)

    def run(self, load: Load) -> Result:
        return self.call(drive, load)

    def call(self, work: Callable[..., T], *arguments: object) -> T:
        """Run `work` in the process and return its result; it must be importable by name."""
        return self._pool.submit(work, *arguments).result()

    def close(self) -> None:
        self._pool.shutdown()


def drive(load: Load) -> Result:
    """Keep `in_flight` requests on each connection for the duration, then awaits the last responses."""
    sockets = [connect_for_load(load.port) for _ in range(load.connections)]
    gc.disable()
    try:
        server_cpu, own_cpu, started = cpu_seconds(load.pid), time.process_time(), time.perf_counter()
        if load.in_flight == 1:
            observations = exchange_singly(sockets, load.ring, started + load.seconds)
        else:
            observations = exchange_pipelined(sockets, load.ring, load.in_flight, started + load.seconds)
        seconds = time.perf_counter() - started
        own_cpu, server_cpu = time.process_time() - own_cpu, cpu_seconds(load.pid) - server_cpu
    finally:
        gc.enable()
        for connection in sockets:
            connection.close()
    ordered = sorted(observations.latencies)
    return Result(
        answered=len(ordered),
        seconds=seconds,
        server_cpu_seconds=server_cpu,
        generator_cpu_seconds=own_cpu,
        p50=ordered[len(ordered) // 2],
        p99=ordered[len(ordered) * 99 // 100],
        samples=observations.samples,
    )
