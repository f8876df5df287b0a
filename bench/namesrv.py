"""`python -m bench.namesrv`: compares the NameServer of Kerolox with Java's in one run under one load generator."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import namesrv_tables as tables
from bench.connections import ask, connect
from bench.frames import Ring, decode, encode
from bench.generator import Generator, Result
from bench.idle_connections import hold
from bench.measure import Memory, machine, memory, raise_file_limit
from bench.page import replace_part
from bench.registered_brokers import RegisteredBrokers
from bench.report import Report, Section
from bench.requests import QUEUES, Broker, broker, heartbeats, registrations, route_queries, version_queries
from bench.run import Profile, Run
from bench.servers import JAVA_HEAP, name_servers
from tests.apache import SERVER_VERSIONS

PIPELINED = Profile(4, 64)
ROUTE_PROFILES = (PIPELINED, Profile(64, 1), Profile(1, 1))
TOPICS = 1_000
SCALE_BROKERS, SCALE_TOPICS = 100, 500
SCALE_RING = 8_192
SCALE_SEED = 20_250_929
_SILENCE_SECONDS = 3.0


class NameServerRun:
    """The parts of the comparison, in the order in which they run; each returns its table."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._registered = {name: RegisteredBrokers(server) for name, server in run.servers.items()}
        run.keep_alive(self._refresh)

    def routes(self, warm_up_seconds: float) -> Section:
        owner = broker(0, TOPICS)
        for registered in self._registered.values():
            registered.add([owner])
        requests = route_queries(owner.topics * 4)
        self._run.warm_up(requests, PIPELINED, warm_up_seconds)
        first = next(iter(self._run.servers.values()))
        with self._run.targets(requests, answered_by=first) as targets:
            results = {
                profile: self._run.compare(f"routes {profile}", targets, requests, profile)
                for profile in ROUTE_PROFILES
            }
        for by_server in results.values():
            for rounds in by_server.values():
                check_routes(rounds, requests, owner.topics * 4)
        return tables.routes(tuple(targets), results)

    def registrations(self) -> Section:
        sender = broker(1, TOPICS)
        one_by_one = Profile(1, 1)
        results = {}
        columns: tuple[str, ...] = ()
        for label, is_changing in (("unchanged", False), ("changed", True)):
            requests = registrations(sender, 64, is_changing=is_changing)
            first = next(iter(self._run.servers.values()))
            with self._run.targets(requests, answered_by=first) as targets:
                results[label] = self._run.compare(f"registration, {label}", targets, requests, one_by_one)
                columns = tuple(targets)
        return tables.registrations(columns, results)

    def memory(self) -> dict[str, Memory]:
        return {name: memory(server.pid) for name, server in self._run.servers.items()}

    def scale(self) -> Section:
        brokers = [broker(index, SCALE_TOPICS, "scale") for index in range(SCALE_BROKERS)]
        # One broker and many brokers take turns, so that other load on the machine affects both equally.
        few, many = tables.no_results(), tables.no_results()
        registered_in: dict[str, list[tuple[float, float]]] = {name: [] for name in self._registered}
        for number in range(self._run.rounds):
            for registered in self._registered.values():
                registered.close()
                registered.add(brokers[:1])
            self._heartbeat_costs(brokers[0], "1 broker", number, few)
            for name, registered in self._registered.items():
                self._run.show_status(f"registering {SCALE_BROKERS - 1} more brokers: {name}")
                registered_in[name].append(registered.add(brokers[1:]))
            self._heartbeat_costs(brokers[0], f"{SCALE_BROKERS} brokers", number, many)
        after = self.memory()
        topics = [topic for known in brokers for topic in known.topics]
        sampled = random.Random(SCALE_SEED).sample(topics, SCALE_RING)
        requests = route_queries(sampled)
        with self._run.targets(requests) as targets:
            routes = self._run.compare(f"routes of {len(topics):,} topics", targets, requests, PIPELINED)
        for rounds in routes.values():
            check_routes(rounds, requests, sampled)
        return tables.scale(tuple(targets), SCALE_BROKERS, registered_in, routes, few, many, after)

    def idle(self, count: int) -> Section:
        request = encode(105, {"topic": "bench-idle"})
        measured: dict[str, tuple[Memory, Memory]] = {}
        for name, server in self._run.servers.items():
            self._run.show_status(f"{count:,} idle connections: {name}")
            measured[name] = self._run.generator.call(hold, server.port, server.pid, count, request)
        return tables.idle(count, measured)

    def _refresh(self) -> None:
        for registered in self._registered.values():
            registered.refresh()

    def _heartbeat_costs(self, known: Broker, label: str, number: int, results: tables.Collected) -> None:
        """Measure the CPU cost of the three kinds of broker heartbeats in one round, and add it to `results`."""
        sender = broker(201, SCALE_TOPICS, "scale")
        kinds: dict[str, tuple[Ring, Profile]] = {
            "QUERY_DATA_VERSION": (version_queries(known, 1024), Profile(1, 16)),
            "BROKER_HEARTBEAT": (heartbeats(known, 1024), Profile(1, 16)),
            "REGISTER_BROKER, unchanged": (registrations(sender, 64, is_changing=False), Profile(1, 1)),
        }
        once = range(number, number + 1)
        for kind, (requests, profile) in kinds.items():
            with self._run.targets(requests) as targets:
                supporting = {name: target for name, target in targets.items() if _supports(target.port, requests)}
                measured = self._run.compare(f"{kind} among {label}", supporting, requests, profile, once)
            for name, rounds in measured.items():
                results[kind][name] += rounds


def check_routes(rounds: list[Result], requests: Ring, topics: tuple[str, ...] | list[str]) -> None:
    """Check the brokers and queues of the sampled responses against the registered ones."""
    for frame in (frame for result in rounds for frame in result.samples):
        answer = decode(frame)
        topic = topics[requests.opaques.index(b"%d" % answer.header["opaque"])]
        name = topic.partition("-topic-")[0]
        route = answer.json()
        addresses = {data["brokerName"]: data["brokerAddrs"] for data in route["brokerDatas"]}
        queues = {data["brokerName"]: data["writeQueueNums"] for data in route["queueDatas"]}
        if addresses != {name: {"0": broker(int(name[-3:]), 0).address}} or queues != {name: QUEUES}:
            raise ValueError(f"the route of {topic} is wrong: {route}")


def _supports(port: int, requests: Ring) -> bool:
    """Whether the server answers such a request; 4.9 has no BROKER_HEARTBEAT and does not respond to it."""
    with connect(port) as connection:
        connection.settimeout(_SILENCE_SECONDS)
        try:
            return decode(ask(connection, requests.slice(0, 1))).code == 0
        except TimeoutError:
            return False


@click.command()
@click.option("--seconds", default=2.0, show_default=True, help="Duration of each load.")
@click.option("--rounds", default=3, show_default=True, help="Number of rounds; each server runs once per round.")
@click.option("--warm-up", default=20.0, show_default=True, help="Seconds of warm-up load on each server.")
@click.option("--idle", default=10_000, show_default=True, help="Number of idle connections.")
@click.option("--markdown", type=Path, help="Also write the tables to this file.")
@click.option("--only", multiple=True, help="Only servers with this in their name.")
@click.option("--quick", is_flag=True, help="One short round as a smoke test; the figures mean nothing.")
def main(
    seconds: float, rounds: int, warm_up: float, idle: int, markdown: Path | None, only: tuple[str, ...], quick: bool
) -> None:
    """Compare the NameServer of Kerolox with Java's."""
    if quick:
        seconds, rounds, warm_up, idle = min(seconds, 0.5), 1, 1.0, min(idle, 1_000)
    raise_file_limit()
    console = Console()
    facts = machine()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(Progress(*columns, console=console, refresh_per_second=2, transient=True))
        generator = Generator()
        stack.callback(generator.close)
        run = Run(generator, progress, rounds=rounds, seconds=seconds, warm_up_rounds_max=2 if quick else 8)
        specs = [each for each in name_servers() if not only or any(part in each.name for part in only)]
        ready = run.start(specs, stack)
        parts = NameServerRun(run)
        before = parts.memory()
        sections = [parts.routes(warm_up), parts.registrations()]
        sections.insert(0, tables.footprint(ready, before, parts.memory()))
        sections += [parts.scale(), parts.idle(idle)]
    facts |= {
        "load average at end": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
        "Java's options": f"{' '.join(JAVA_HEAP)}, otherwise its defaults",
        "Java's versions": ", ".join(sorted(set(SERVER_VERSIONS.values())))
        + "; the server of 4.9.8 was never published to Maven, 4.9.7 is the newest of 4.9 there",
        "rounds": f"{rounds} of {seconds:g} s, in turns; shown: the median (the best)",
        "warm-up": f"{warm_up:g} s of route queries each, then each load until it gets no faster",
    }
    command = shlex.join(["python", "-m", "bench.namesrv", *sys.argv[1:]])
    title = "NameServer: Kerolox and Apache RocketMQ"
    if quick:
        title += " (quick run: Java is not warm, its figures do not count)"
    report = Report(title, command, facts, sections)
    report.print(console)
    if markdown is not None:
        replace_part(markdown, report.markdown())


if __name__ == "__main__":
    main()
