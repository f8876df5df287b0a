"""`python -m bench.broker`: compares the broker of Kerolox with Java's in one run under one load generator."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import broker_tables as tables
from bench import fairness, messages, mixed, ordinary, two_brokers
from bench.broker_polls import hold_polls
from bench.brokers import brokers
from bench.compiled import CompiledGenerator
from bench.connections import ask, connect
from bench.fairness import Fairness
from bench.frames import Ring, decode
from bench.generator import Load, Result
from bench.java_clients import JavaResult, JavaRun, Mode, run_producer
from bench.measure import Memory, machine, memory, raise_file_limit
from bench.mixed import Mixed
from bench.ordinary import Traffic
from bench.page import replace_part
from bench.report import BEST_OTHER, Report, Section
from bench.run import GENERATOR_ALONE, Profile, Requests, Run, Target, ring_of_round
from bench.servers import JAVA_HEAP
from tests.apache import SERVER_VERSIONS

PIPELINED = Profile(4, 64)
SEND_PROFILES = (PIPELINED, Profile(64, 1), Profile(1, 1))
ORDINARY_PROFILES = (PIPELINED, Profile(64, 1))
ORDINARY = Traffic()
BY_TOPICS = {count: Traffic(topics=count) for count in (1, 4, 32, 256)}
THOUSAND_QUEUES = Traffic(topics=125, is_even=True)
BY_GROUPS = {count: Traffic(groups=count) for count in (1, 64)}
# A client that waits for each response, and the producers that flood the broker beside it.
CLIENT, PRODUCERS = Profile(1, 1), Profile(8, 1000)
PULL_PROFILE = Profile(4, 4)
BATCH_PROFILE = Profile(4, 8)
BODY_SIZES = (128, 1024)
KEYED_BODY_SIZE = 300
PULL_OFFSETS = 32
TOPIC, PULL_TOPIC = "bench", "bench-pull"
JAVA_RUNS = (
    *(JavaRun(body_size) for body_size in BODY_SIZES),
    *(JavaRun(body_size, Mode.ASYNC) for body_size in BODY_SIZES),
    *(JavaRun(body_size, Mode.BATCHES) for body_size in BODY_SIZES),
    JavaRun(128, has_consumer=True),
    JavaRun(128, has_keys=True, topics=8),
)
# One of each kind, as a smoke test.
QUICK_JAVA_RUNS = tuple(run for run in JAVA_RUNS if run.body_size == BODY_SIZES[0])
JAVA_ROUNDS = 2
# With RocketMQ, queues are updated after the response.
STORED_SECONDS_MAX = 10.0
PARTS = ("sends", "ordinary", "queues", "fairness", "batches", "pulls", "mixed", "idle", "java", "sync", "two")


class BrokerRun:
    """The parts of the comparison for one flush mode; each returns its tables."""

    def __init__(self, run: Run, generator: CompiledGenerator, namesrvs: Mapping[str, str]) -> None:
        self._run = run
        self._generator = generator
        self._namesrvs = namesrvs
        for server in run.servers.values():
            messages.make_topic(server.port, TOPIC)

    def warm_up(self, seconds: float) -> None:
        self._run.warm_up(messages.sends(TOPIC, 128), PIPELINED, seconds)

    def sends(self) -> list[Section]:
        sections = []
        for body_size in BODY_SIZES:
            requests = messages.sends(TOPIC, body_size)
            with self._targets(requests, 0) as targets:
                results = {
                    profile: self._stored(f"sends of {body_size} B, {profile}", targets, requests, profile)
                    for profile in SEND_PROFILES
                }
            sections.append(tables.sends(tuple(targets), body_size, results))
        return sections

    def ordinary(self) -> list[Section]:
        """Send to many topics and with keys: ordinary traffic, its cost by topics and groups, and KEYS on one topic."""
        self._make_topics(BY_TOPICS[max(BY_TOPICS)])
        keyed = messages.keyed_sends(TOPIC, KEYED_BODY_SIZE)
        with self._targets(keyed, 0) as with_keys:
            measured = self._stored("one topic with KEYS", with_keys, keyed, PIPELINED)
        return [
            self._ordinary(ORDINARY),
            self._by_number("topic", BY_TOPICS),
            self._by_number("producer group", BY_GROUPS),
            tables.keyed(tuple(with_keys), KEYED_BODY_SIZE, PIPELINED, measured),
        ]

    def queues(self) -> list[Section]:
        """Send ordinary traffic to a thousand queues, each as often as the others."""
        self._make_topics(THOUSAND_QUEUES)
        return [self._ordinary(THOUSAND_QUEUES)]

    def fairness(self) -> list[Section]:
        """Run a client with one request in flight beside producers with thousands, of alike and of ordinary traffic."""
        self._make_topics(ORDINARY)
        alike = messages.sends(TOPIC, 128)
        floods: dict[str, Requests] = {
            "alike sends of 128 B": alike,
            f"ordinary traffic over {ORDINARY.topics} topics": ORDINARY.ring,
        }
        return [self._fairness(kind, alike, flood) for kind, flood in floods.items()]

    def batches(self) -> list[Section]:
        results = {}
        for body_size in BODY_SIZES:
            requests = messages.batches(TOPIC, body_size)
            label = f"{BATCH_PROFILE}, {body_size} B"
            with self._targets(requests) as targets:
                results[label] = self._run.compare(f"batches {label}", targets, requests, BATCH_PROFILE)
        return [tables.batches(tuple(self._run.servers), messages.BATCH_SIZE, results)]

    def pulls(self) -> list[Section]:
        for name, server in self._run.servers.items():
            self._run.show_status(f"messages to be pulled: {name}")
            messages.fill(server.port, PULL_TOPIC, PULL_OFFSETS * messages.PULL_SIZE, 1024)
        requests = messages.pulls(PULL_TOPIC, PULL_OFFSETS)
        with self._targets(requests, messages.PULL_SIZE * 1150) as targets:
            results = self._run.compare("pulls", targets, requests, PULL_PROFILE)
        return [tables.pulls(tuple(targets), messages.PULL_SIZE, PULL_PROFILE, results)]

    def mixed(self) -> list[Section]:
        """Let consumers of several groups pull while producers send ordinary traffic, both on the same topics."""
        self._make_topics(mixed.TRAFFIC)
        label, topics = "mixed pulls and sends", (*mixed.BACKLOG.topic_names, mixed.QUIET_TOPIC)
        with self._targets() as targets:
            for name, target in targets.items():
                self._run.show_status(f"backlog of mixed pulls: {name}")
                messages.make_topic(target.port, mixed.QUIET_TOPIC)
                self._make_backlog(target)
            self._run.warm_up_until_steady(label, targets, mixed.TRAFFIC.ring, PIPELINED)
            self._run.warm_up_until_steady(label, targets, mixed.pulls(0, mixed.backlog_ends()), PULL_PROFILE)
            results: dict[str, list[Mixed]] = {name: [] for name in targets}
            for number in range(self._run.rounds):
                ring = mixed.TRAFFIC.ring(number)
                for name, target in self._run.turns(label, targets, number):
                    pulls = mixed.pulls(number, messages.max_offsets(target.port, *topics))
                    producers, consumers = self._load(target, ring, PIPELINED), self._load(target, pulls, PULL_PROFILE)
                    results[name].append(mixed.measure(self._generator, producers, consumers))
        return [tables.mixed(tuple(targets), PIPELINED, PULL_PROFILE, results)]

    def java(self, seconds: float, runs: Sequence[JavaRun] = JAVA_RUNS, rounds: int = JAVA_ROUNDS) -> list[Section]:
        """Run Java's programs on the brokers in turns. Each run has its own topics, so it reads only its messages."""
        servers = self._run.servers
        results: dict[str, dict[str, list[JavaResult]]] = {}
        for kind, run in enumerate(runs):
            by_server = results[str(run)] = {name: [] for name in servers}
            for number in range(rounds):
                for name, server in servers.items():
                    self._run.show_status(f"Java's Producer, {run}: {name}, round {number + 1}/{rounds}")
                    topics = run.topic_names(f"bench-java-{kind}-{number}")
                    for topic in topics:
                        messages.make_topic(server.port, topic)
                    by_server[name].append(run_producer(self._namesrvs[name], server.pid, run, topics, seconds))
        return [tables.java_clients(tuple(servers), results)]

    def idle(self, count: int) -> list[Section]:
        measured: dict[str, tuple[Memory, Memory]] = {}
        for name, server in self._run.servers.items():
            self._run.show_status(f"{count:,} long polls: {name}")
            measured[name] = self._generator.call(hold_polls, server.port, server.pid, TOPIC, count)
        return [tables.idle(count, measured)]

    def synced(self) -> list[Section]:
        alike = {}
        for body_size in BODY_SIZES:
            requests = messages.sends(TOPIC, body_size)
            with self._targets(requests) as targets:
                alike[body_size] = self._stored(f"SYNC_FLUSH, {body_size} B", targets, requests, PIPELINED)
        self._make_topics(ORDINARY)
        with self._targets() as targets:
            ordinary_synced = self._stored(
                "SYNC_FLUSH, ordinary traffic", targets, ORDINARY.ring, PIPELINED, topics=ORDINARY.topic_names
            )
        return [tables.synced(tuple(self._run.servers), PIPELINED, alike, ORDINARY, ordinary_synced)]

    def memory(self) -> dict[str, Memory]:
        return {name: memory(server.pid) for name, server in self._run.servers.items()}

    def _make_topics(self, traffic: Traffic) -> None:
        for name, server in self._run.servers.items():
            self._run.show_status(f"{traffic.topics} topics: {name}")
            ordinary.make_topics(server.port, traffic.topic_names)

    def _ordinary(self, traffic: Traffic) -> Section:
        label, topics = f"ordinary traffic over {traffic.queues:,} queues", traffic.topic_names
        with self._targets(answer_size=0) as targets:
            results = {
                profile: self._stored(f"{label}, {profile}", targets, traffic.ring, profile, topics=topics)
                for profile in ORDINARY_PROFILES
            }
        return tables.ordinary(tuple(targets), traffic, results)

    def _by_number(self, what: str, traffic: Mapping[int, Traffic]) -> Section:
        """Compare kinds of ordinary traffic that differ in one number; they take turns in every round."""
        with self._targets() as targets:
            results: dict[int, dict[str, list[Result]]] = {count: {name: [] for name in targets} for count in traffic}
            for number in range(self._run.rounds):
                for count, kind in traffic.items():
                    label, once = f"ordinary traffic by {what}s, {count}", range(number, number + 1)
                    measured = self._stored(label, targets, kind.ring, PIPELINED, topics=kind.topic_names, rounds=once)
                    for name, rounds in measured.items():
                        results[count][name] += rounds
        return tables.by_number(what, tuple(targets), PIPELINED, results)

    def _fairness(self, kind: str, requests: Ring, flood: Requests) -> Section:
        label = f"{PRODUCERS}, {kind}"
        with self._targets() as targets:
            results: dict[str, list[Fairness]] = {name: [] for name in targets}
            self._run.warm_up_until_steady(label, targets, flood, PRODUCERS)
            for number in range(self._run.rounds):
                ring = ring_of_round(flood, number)
                for name, target in self._run.turns(label, targets, number):
                    client, producers = self._load(target, requests, CLIENT), self._load(target, ring, PRODUCERS)
                    results[name].append(fairness.measure(self._generator, client, producers))
        return tables.fairness(tuple(targets), PRODUCERS, kind, results)

    def _make_backlog(self, target: Target) -> None:
        """Send until every queue that mixed pulls read has a backlog."""
        load = self._load(target, mixed.BACKLOG.ring(0), PIPELINED)
        while (
            min(map(min, messages.max_offsets(target.port, *mixed.BACKLOG.topic_names).values())) < mixed.BACKLOG_SIZE
        ):
            self._generator.run(load)

    def _load(self, target: Target, ring: Ring, profile: Profile) -> Load:
        return Load(target.port, target.pid, ring, profile.connections, profile.in_flight, self._run.seconds)

    @contextlib.contextmanager
    def _targets(self, requests: Ring | None = None, answer_size: int | None = None) -> Iterator[dict[str, Target]]:
        """Yield the brokers that support `requests`, if given, and with an answer size a server that stores nothing."""
        targets = {
            name: Target(server.port, server.pid)
            for name, server in self._run.servers.items()
            if requests is None or _supports(server.port, requests)
        }
        if answer_size is None:
            yield targets
            return
        with self._generator.answering(answer_size) as (port, pid):
            yield {**targets, GENERATOR_ALONE: Target(port, pid)}

    def _stored(
        self,
        label: str,
        targets: Mapping[str, Target],
        requests: Requests,
        profile: Profile,
        *,
        topics: Sequence[str] = (TOPIC,),
        rounds: range | None = None,
    ) -> tables.Results:
        """Run a comparison, and verify that acknowledged messages are stored."""
        brokers = {name: target for name, target in targets.items() if name != GENERATOR_ALONE}
        before = {name: messages.stored(target.port, *topics) for name, target in brokers.items()}
        results = self._run.compare(label, targets, requests, profile, rounds)
        for name, target in brokers.items():
            acknowledged = sum(result.answered for result in results[name])
            more = _wait_until_stored(target.port, topics, before[name] + acknowledged) - before[name]
            if more < acknowledged:
                raise RuntimeError(f"{name} acknowledged {acknowledged} messages, but has only {more} more")
        return results


def _wait_until_stored(port: int, topics: Sequence[str], count: int) -> int:
    """Wait until the queues of these topics have `count` messages, or the time is over; return how many they have."""
    deadline = time.monotonic() + STORED_SECONDS_MAX
    while (found := messages.stored(port, *topics)) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _supports(port: int, requests: Ring) -> bool:
    """Whether a broker responds to such a request with SUCCESS."""
    with connect(port) as connection:
        return decode(ask(connection, requests.slice(0, 1))).code == 0


@click.command()
@click.option("--seconds", default=2.0, show_default=True, help="Duration of each load.")
@click.option("--rounds", default=3, show_default=True, help="Number of rounds; each broker runs once per round.")
@click.option("--warm-up", default=20.0, show_default=True, help="Seconds of warm-up load on each broker.")
@click.option("--java-seconds", default=10.0, show_default=True, help="Seconds of measurement of Java's programs.")
@click.option("--polls", default=10_000, show_default=True, help="Number of waiting long polls.")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Run only this part.")
@click.option("--only", multiple=True, help="Only brokers with this in their name.")
@click.option("--beside", multiple=True, type=Path, help="Also measure the broker of another working tree of Kerolox.")
@click.option("--markdown", type=Path, help="Also write the tables to the broker's part of this page.")
@click.option("--quick", is_flag=True, help="One short round as a smoke test; the figures mean nothing.")
def main(
    seconds: float,
    rounds: int,
    warm_up: float,
    java_seconds: float,
    polls: int,
    parts: tuple[str, ...],
    only: tuple[str, ...],
    beside: tuple[Path, ...],
    markdown: Path | None,
    quick: bool,
) -> None:
    """Compare the broker of Kerolox with Java's."""
    if quick:
        seconds, rounds, warm_up, java_seconds = min(seconds, 0.5), 1, 1.0, 1.0
    parts = parts or PARTS
    raise_file_limit()
    facts = machine()
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    sections: list[Section] = []
    with contextlib.ExitStack() as outer:
        progress = outer.enter_context(Progress(*columns, console=console, refresh_per_second=2, transient=True))
        directory = outer.enter_context(tempfile.TemporaryDirectory(prefix="kerolox-bench-"))
        generator = CompiledGenerator(Path(directory))
        outer.callback(generator.close)

        @contextlib.contextmanager
        def started(flush: str, starts: int) -> Iterator[tuple[BrokerRun, dict[str, list[float]]]]:
            with contextlib.ExitStack() as stack:
                run = Run(generator, progress, rounds=starts, seconds=seconds, warm_up_rounds_max=2 if quick else 6)
                specs, namesrvs = brokers(flush, stack, beside)
                wanted = [each for each in specs if not only or any(part in each.name for part in only)]
                ready = run.start(wanted, stack)
                run.rounds = rounds
                measured = BrokerRun(run, generator, namesrvs)
                measured.warm_up(warm_up)
                yield measured, ready

        if set(parts) - {"java", "sync", "two"}:
            with started("ASYNC_FLUSH", rounds) as (run, ready):
                before = run.memory()
                by_part: dict[str, Callable[[], list[Section]]] = {
                    "sends": run.sends,
                    "ordinary": run.ordinary,
                    "queues": run.queues,
                    "fairness": run.fairness,
                    "batches": run.batches,
                    "pulls": run.pulls,
                    "mixed": run.mixed,
                }
                sections += [section for part, job in by_part.items() if part in parts for section in job()]
                sections.insert(0, tables.footprint(ready, before, run.memory()))
                if "idle" in parts:
                    sections += run.idle(polls)
        if "java" in parts:
            # New brokers with empty stores: three brokers write tens of gigabytes in all parts, and RocketMQ deletes
            # files, then refuses messages, when the disk is nearly full.
            with started("ASYNC_FLUSH", 1) as (run, _):
                sections += run.java(java_seconds, *((QUICK_JAVA_RUNS, 1) if quick else ()))
        if "sync" in parts:
            with started("SYNC_FLUSH", 1) as (run, _):
                sections += run.synced()
        if "two" in parts:
            sections.append(two_brokers.compare(generator, PIPELINED, rounds=rounds, seconds=seconds))
    facts |= {
        "load average at end": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
        "Java's options": f"{' '.join(JAVA_HEAP)}, otherwise its defaults; waitTimeMillsInSendQueue=3000",
        "Java's versions": ", ".join(sorted(set(SERVER_VERSIONS.values())))
        + "; the server of 4.9.8 was never published to Maven, 4.9.7 is the newest of 4.9 there",
        "rounds": f"{rounds} of {seconds:g} s, in turns; shown: the median (the best)",
        BEST_OTHER: "in each row the broker of RocketMQ that is the fastest, or uses the least CPU, memory or time",
        "warm-up": f"{warm_up:g} s of sends each, then each load until it gets no faster",
    }
    title = "Broker: Kerolox and Apache RocketMQ"
    if quick:
        title += " (quick run: Java is not warm, its figures do not count)"
    report = Report(title, shlex.join(["python", "-m", "bench.broker", *sys.argv[1:]]), facts, sections)
    report.print(console)
    if markdown is not None:
        replace_part(markdown, report.markdown())


if __name__ == "__main__":
    main()
