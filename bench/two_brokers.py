"""Compares two Kerolox brokers under load with one: scaling on several cores."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

from bench import messages
from bench.brokers import our_broker
from bench.compiled import CompiledGenerator
from bench.generator import Load, Result
from bench.report import KEROLOX, Goal, Row, Section, per_second
from bench.run import Profile
from bench.servers import Server, started

ALONE = "one alone"
_TOPIC = "bench"
_GOAL = Goal(1.7, is_ratio=True, than="one", is_minimum=True)


def compare(generator: CompiledGenerator, profile: Profile, *, rounds: int, seconds: float) -> Section:
    """Load one of two brokers, then both at once, in turns, each with its own generator."""
    requests = messages.sends(_TOPIC, 128)

    def load(server: Server) -> Result:
        return generator.run(Load(server.port, server.pid, requests, profile.connections, profile.in_flight, seconds))

    alone: list[float] = []
    together: list[float] = []
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(started(our_broker("ASYNC_FLUSH", stack)[0])) for _ in range(2)]
        for server in servers:
            messages.make_topic(server.port, _TOPIC)
            load(server)
        threads = stack.enter_context(ThreadPoolExecutor(2))
        for number in range(rounds):
            alone.append(load(servers[number % 2]).rate)
            together.append(sum(result.rate for result in threads.map(load, servers)))
    section = Section("Two broker processes", (KEROLOX, ALONE), than=ALONE)
    values = {KEROLOX: together, ALONE: alone}
    section.rows = [Row(f"{profile}, 128 B: both together", values, per_second, is_more_better=True, goal=_GOAL)]
    section.notes = ["Each broker has its own load generator, which runs on the same cores."]
    return section
