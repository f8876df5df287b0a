"""Runs comparisons: servers are warmed up, then measured in turns in every round."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.progress import Progress

from bench.canned_server import canned_server
from bench.connections import record
from bench.frames import Ring
from bench.generator import Generator, Load, Result
from bench.servers import Server, ServerSpec, started

GENERATOR_ALONE = "generator alone"
_REFRESH_SECONDS = 15.0
# The number of the round in which requests are warmed up: measured rounds count from 0.
_WARM_UP_ROUND = -1
# Warm-up ends when two loads in a row are not faster than the best one by this factor.
_STILL_WARMING = 1.05


# The requests of a comparison: the same in every round, or other ones in each, from the number of the round.
Requests = Ring | Callable[[int], Ring]


@dataclass(frozen=True, slots=True)
class Profile:
    """Number of connections, and of requests in flight on each."""

    connections: int
    in_flight: int

    def __str__(self) -> str:
        return f"{self.connections}x{self.in_flight}"


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a load: port of the server, and the process whose CPU time is measured."""

    port: int
    pid: int


class Run:
    """The servers of a run, which take turns under the same load."""

    def __init__(
        self,
        generator: Generator,
        progress: Progress,
        *,
        rounds: int,
        seconds: float,
        warm_up_rounds_max: int,
    ) -> None:
        self.generator = generator
        self.servers: dict[str, Server] = {}
        self.rounds = rounds
        self._progress = progress
        self.seconds = seconds
        self._task = progress.add_task("starting", total=None)
        self._warm_up_rounds_max = warm_up_rounds_max
        self._refresh: Callable[[], None] | None = None
        self._refreshed_at = 0.0
        self._status = ""

    def keep_alive(self, refresh: Callable[[], None]) -> None:
        """Call `refresh` between loads, often enough that brokers do not expire after two minutes."""
        self._refresh = refresh

    def show_status(self, text: str) -> None:
        if text == self._status:
            return
        self._status = text
        if not self._progress.console.is_terminal:
            self._progress.console.print(text)
        self._progress.update(self._task, description=text)

    def start(self, specs: Sequence[ServerSpec], stack: contextlib.ExitStack) -> dict[str, list[float]]:
        """Start each server once per round, keep those of the last round, and return the start-up times."""
        ready: dict[str, list[float]] = {spec.name: [] for spec in specs}
        for number in range(self.rounds):
            for spec in specs:
                self.show_status(f"start-up {number + 1}/{self.rounds}: {spec.name}")
                with contextlib.ExitStack() as once:
                    is_last = number + 1 == self.rounds
                    server = (stack if is_last else once).enter_context(started(spec))
                    ready[spec.name].append(server.ready_seconds)
                    self.servers[spec.name] = server
        return ready

    @contextlib.contextmanager
    def targets(self, requests: Ring, answered_by: Server | None = None) -> Iterator[dict[str, Target]]:
        """Yield the servers and, with `answered_by`, a canned server with its responses to measure the generator."""
        targets = {name: Target(server.port, server.pid) for name, server in self.servers.items()}
        if answered_by is None:
            yield targets
            return
        with canned_server(requests, record(answered_by.port, requests)) as (port, pid):
            yield {**targets, GENERATOR_ALONE: Target(port, pid)}

    def compare(
        self,
        label: str,
        targets: Mapping[str, Target],
        requests: Requests,
        profile: Profile,
        rounds: range | None = None,
    ) -> dict[str, list[Result]]:
        """Return the results of each target, one per round; each round starts with another target.

        A caller with work between rounds passes single rounds as `rounds`; round 0 includes the warm-up.
        """
        rounds = range(self.rounds) if rounds is None else rounds
        if rounds.start == 0:
            self.warm_up_until_steady(label, targets, requests, profile)
        results: dict[str, list[Result]] = {name: [] for name in targets}
        for number in rounds:
            ring = ring_of_round(requests, number)
            for name, target in self.turns(label, targets, number):
                results[name].append(self._load(target, ring, profile))
        return results

    def turns(self, label: str, targets: Mapping[str, Target], number: int) -> Iterator[tuple[str, Target]]:
        """Yield each target once and show its name; each round starts with another target."""
        names = list(targets)
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            self.show_status(f"{label}, round {number + 1}/{self.rounds}: {name}")
            yield name, targets[name]

    def warm_up(self, requests: Ring, profile: Profile, seconds: float) -> None:
        """Load each server for this time before measuring: the JVM compiles while it runs."""
        for name, server in self.servers.items():
            self.show_status(f"warm-up for {seconds:g} s: {name}")
            target = Target(server.port, server.pid)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                self._load(target, requests, profile)

    def warm_up_until_steady(
        self, label: str, targets: Mapping[str, Target], requests: Requests, profile: Profile
    ) -> None:
        """Load each server until it gets no faster; requests that differ by round differ from those of all rounds."""
        ring = ring_of_round(requests, _WARM_UP_ROUND)
        for name, target in targets.items():
            if name != GENERATOR_ALONE:
                self.show_status(f"{label}, warm-up: {name}")
                self._warm_up(target, ring, profile)

    def _warm_up(self, target: Target, requests: Ring, profile: Profile) -> None:
        best, loads_no_faster = 0.0, 0
        for _ in range(self._warm_up_rounds_max):
            rate = self._load(target, requests, profile).rate
            loads_no_faster = 0 if rate > best * _STILL_WARMING else loads_no_faster + 1
            if loads_no_faster == 2:
                return
            best = max(best, rate)

    def _load(self, target: Target, requests: Ring, profile: Profile) -> Result:
        if self._refresh is not None and time.monotonic() - self._refreshed_at > _REFRESH_SECONDS:
            self._refresh()
            self._refreshed_at = time.monotonic()
        load = Load(target.port, target.pid, requests, profile.connections, profile.in_flight, self.seconds)
        return self.generator.run(load)


def ring_of_round(requests: Requests, number: int) -> Ring:
    return requests if isinstance(requests, Ring) else requests(number)
