"""The tables of the NameServer benchmark, and their goals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from bench.generator import Result
from bench.measure import MIB, Memory
from bench.report import Goal, Row, Section, mebibytes, microseconds, milliseconds, per_second, seconds, times
from bench.run import GENERATOR_ALONE, Profile

Results = Mapping[str, Sequence[Result]]
# Kind of request → server → values of all rounds.
Collected = defaultdict[str, defaultdict[str, list[Result]]]

_NO_WORSE_THAN_JAVA = Goal(1.0, is_ratio=True)
_ROUTE_RATE = Goal(4.0, is_ratio=True, is_minimum=True)
_REGISTRATION_CPU = Goal(0.001, shown=milliseconds)
_RESIDENT = Goal(0.2, is_ratio=True)
_READY = Goal(0.5, shown=seconds)
_IDLE_PER_CONNECTION = 200 * MIB / 10_000
# The noise: two measurements of the same value may differ by this factor.
_NO_GROWTH = Goal(1.25, shown=times)


def footprint(
    ready: Mapping[str, Sequence[float]], before: Mapping[str, Memory], after: Mapping[str, Memory]
) -> Section:
    section = Section("Start-up and memory", tuple(ready))
    section.rows = [
        Row("from the start until the first route query is answered", ready, seconds, goal=_READY),
        *_memory_rows("after start", before),
        *_memory_rows("after routes and registrations", after),
    ]
    return section


def routes(columns: tuple[str, ...], results: Mapping[Profile, Results]) -> Section:
    section = Section("GET_ROUTEINFO_BY_TOPIC, 1,000 topics", columns)
    for profile, measured in results.items():
        rate_goal = None if profile == Profile(1, 1) else _ROUTE_RATE
        section.rows += [
            Row(f"{profile}: rate", _each(measured, _rate), per_second, is_more_better=True, goal=rate_goal),
            Row(f"{profile}: CPU of the server per request", _each(measured, _cpu), microseconds),
            Row(f"{profile}: p50", _each(measured, _p50), microseconds),
            Row(f"{profile}: p99", _each(measured, _p99), microseconds, goal=_NO_WORSE_THAN_JAVA),
        ]
    section.notes = [
        "4x64 is four connections with 64 requests in flight on each.",
        *_ceiling_notes(results),
    ]
    return section


def registrations(columns: tuple[str, ...], results: Mapping[str, Results]) -> Section:
    section = Section("REGISTER_BROKER, 1,000 topics, one after the other", columns)
    for label, measured in results.items():
        section.rows += [
            Row(f"DataVersion {label}: rate", _each(measured, _rate), per_second, is_more_better=True),
            Row(f"DataVersion {label}: CPU", _each(measured, _cpu), milliseconds, goal=_REGISTRATION_CPU),
            Row(f"DataVersion {label}: p50", _each(measured, _p50), milliseconds),
            Row(f"DataVersion {label}: p99", _each(measured, _p99), milliseconds, goal=_NO_WORSE_THAN_JAVA),
        ]
    section.notes = ["A broker repeats its registration every 30 s; the DataVersion changes when a topic does."]
    return section


def no_results() -> Collected:
    return defaultdict(lambda: defaultdict(list))


def scale(
    columns: tuple[str, ...],
    broker_count: int,
    registered_in: Mapping[str, Sequence[tuple[float, float]]],
    routes: Results,
    alone: Mapping[str, Results],
    among_many: Mapping[str, Results],
    after: Mapping[str, Memory],
) -> Section:
    section = Section(f"50,000 topics over {broker_count} brokers", columns)
    others = broker_count - 1
    elapsed = {name: [wall / others for wall, _ in rounds] for name, rounds in registered_in.items()}
    cpu_cost = {name: [cpu / others for _, cpu in rounds] for name, rounds in registered_in.items()}
    section.rows = [
        Row("first registration of 500 topics: time", elapsed, milliseconds),
        Row("first registration of 500 topics: CPU", cpu_cost, milliseconds),
        Row(
            "route queries 4x64: rate",
            _each(routes, _rate),
            per_second,
            is_more_better=True,
            goal=_ROUTE_RATE,
        ),
        Row("route queries 4x64: CPU per request", _each(routes, _cpu), microseconds),
        Row("route queries 4x64: p99", _each(routes, _p99), microseconds, goal=_NO_WORSE_THAN_JAVA),
        *_memory_rows("with all topics", after),
    ]
    for kind, few in alone.items():
        many = among_many[kind]
        growth = {
            name: [_cpu(after) / _cpu(before) for before, after in zip(few[name], many[name], strict=True)]
            for name in few
            if all(_cpu(result) for result in few[name])
        }
        section.rows += [
            Row(f"{kind}: CPU, 1 broker present", _each(few, _cpu), microseconds),
            Row(f"{kind}: CPU, {broker_count} brokers present", _each(many, _cpu), microseconds),
            Row(f"{kind}: growth", growth, times, goal=_NO_GROWTH),
        ]
    section.notes = ["4.9 does not know BROKER_HEARTBEAT. The registration repeated here has 500 topics."]
    return section


def idle(count: int, held: Mapping[str, tuple[Memory, Memory]]) -> Section:
    section = Section(f"{count:,} idle connections", tuple(held))
    before = {name: [float(first.resident)] for name, (first, _) in held.items()}
    after = {name: [float(second.resident)] for name, (_, second) in held.items()}
    growth = {name: [float(second.resident - first.resident)] for name, (first, second) in held.items()}
    goal = Goal(_IDLE_PER_CONNECTION * count, shown=mebibytes)
    section.rows = [
        Row("resident before", before, mebibytes),
        Row("resident with the connections open", after, mebibytes),
        Row("growth", growth, mebibytes, goal=goal),
    ]
    section.notes = [
        "Java's heap may have free space from earlier loads; its growth then says little.",
    ]
    return section


def _memory_rows(when: str, measured: Mapping[str, Memory]) -> list[Row]:
    resident = {name: [float(figures.resident)] for name, figures in measured.items()}
    anonymous = {name: [float(figures.anonymous)] for name, figures in measured.items()}
    return [
        Row(f"resident {when}", resident, mebibytes, goal=_RESIDENT),
        Row(f"anonymous {when}", anonymous, mebibytes),
    ]


def _ceiling_notes(results: Mapping[Profile, Results]) -> list[str]:
    """Return notes about the maximum rate of the generator, and about goals that it cannot reach."""
    notes = []
    for profile, measured in results.items():
        alone = max(measured[GENERATOR_ALONE], key=_rate)
        own_cpu = microseconds(alone.generator_cpu_seconds / alone.answered)
        note = f"{profile}: the generator reaches {per_second(alone.rate)} with canned answers ({own_cpu} of CPU each)"
        fastest = Row("", _each(measured, _rate), per_second, is_more_better=True).best_other()
        if fastest is not None:
            headroom = alone.rate / fastest.median
            note += f", {times(headroom)} the faster Java"
            if headroom < _ROUTE_RATE.limit:
                note += f"; {_ROUTE_RATE.limit:g}x cannot be measured with it"
        notes.append(f"{note}.")
    return [*notes, "If a server comes near this rate, its own rate is a lower bound."]


def _each(results: Results, figure: Callable[[Result], float]) -> dict[str, list[float]]:
    return {name: [figure(result) for result in rounds] for name, rounds in results.items()}


def _rate(result: Result) -> float:
    return result.rate


def _cpu(result: Result) -> float:
    return result.cpu_per_request


def _p50(result: Result) -> float:
    return result.p50


def _p99(result: Result) -> float:
    return result.p99
