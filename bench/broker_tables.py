"""The tables of the broker benchmark, and their goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bench.compiled import CompiledResult
from bench.fairness import Fairness
from bench.generator import Result
from bench.java_clients import IN_FLIGHT_MAX, JavaResult
from bench.measure import Memory
from bench.mixed import SUBSCRIPTIONS, TRAFFIC, Mixed
from bench.ordinary import GROUPS, TOPICS, Traffic
from bench.report import (
    Goal,
    Row,
    Section,
    mebibytes,
    microseconds,
    milliseconds,
    per_second,
    percent,
    seconds,
    times,
)
from bench.run import GENERATOR_ALONE, Profile

T = TypeVar("T")
Results = Mapping[str, Sequence[Result]]


def _at_least(limit: float) -> Goal:
    return Goal(limit, is_ratio=True, is_minimum=True)


def _at_most(limit: float) -> Goal:
    return Goal(limit, is_ratio=True)


@dataclass(frozen=True, slots=True)
class LoadGoals:
    """The goals of one load for rate and CPU; that for p99 is the same for all loads."""

    rate: Goal
    cpu: Goal | None = None


_ALIKE = {
    Profile(4, 64): LoadGoals(_at_least(2.0), _at_most(0.35)),
    Profile(64, 1): LoadGoals(_at_least(1.0), _at_most(0.5)),
    Profile(1, 1): LoadGoals(_at_least(2.0), _at_most(0.5)),
}
_ORDINARY = {
    Profile(4, 64): LoadGoals(_at_least(1.2), _at_most(0.6)),
    Profile(64, 1): LoadGoals(_at_least(1.0)),
}
_KEYED = LoadGoals(_at_least(1.8))
_ALIKE_SYNCED = LoadGoals(_at_least(2.0))
_ORDINARY_SYNCED = LoadGoals(_at_least(1.2))
_P99 = _at_most(1.0)
_BATCHED = _at_least(1.2)
_PULLED, _PULL_CPU = _at_least(1.5), _at_most(0.5)
_JAVA_RATE, _JAVA_CPU = _at_least(1.2), _at_most(0.6)
_RESIDENT = _at_most(0.1)
_READY = Goal(1.0, shown=seconds)
# CPU per message may not grow with the number of topics or producer groups by more than this factor.
_NO_GROWTH = Goal(1.25, shown=times)
_CLIENT_P99 = Goal(0.05, shown=milliseconds)
_CLIENT_SHARE = Goal(0.25, is_minimum=True, shown=percent)
_PRODUCERS_SHARE = Goal(0.95, is_minimum=True, shown=percent)
_POLL_SIZE = 4096


def footprint(
    ready: Mapping[str, Sequence[float]], before: Mapping[str, Memory], after: Mapping[str, Memory]
) -> Section:
    section = Section("Start-up and memory", tuple(ready))
    section.rows = [
        Row("from the start until the first request is answered", ready, seconds, goal=_READY),
        *_memory_rows("after start", before),
        *_memory_rows("after all loads", after),
    ]
    return section


def sends(columns: tuple[str, ...], body_size: int, results: Mapping[Profile, Results]) -> Section:
    section = Section(f"SEND_MESSAGE_V2, {body_size} B, ASYNC_FLUSH", columns)
    _add_loads(section, {str(profile): (measured, _ALIKE[profile]) for profile, measured in results.items()})
    section.notes.insert(
        0, "4x64 is four connections with 64 requests in flight on each; every message has another key."
    )
    return section


def ordinary(columns: tuple[str, ...], traffic: Traffic, results: Mapping[Profile, Results]) -> Section:
    over = f"{traffic.queues:,} queues of {traffic.topics} topics" if traffic.is_even else f"{traffic.topics} topics"
    popularity = "Queues of equal" if traffic.is_even else "Topics of unequal"
    section = Section(f"SEND_MESSAGE_V2, ordinary traffic over {over}, ASYNC_FLUSH", columns)
    _add_loads(section, {str(profile): (measured, _ORDINARY[profile]) for profile, measured in results.items()})
    section.notes.insert(
        0,
        f"{popularity} popularity, {traffic.groups} producer groups, several client versions, bodies from 20 B to "
        "8 KiB, most messages with keys and tags, some with further properties, JSON and binary headers, in random "
        "order; every round has other messages.",
    )
    return section


def by_number(what: str, columns: tuple[str, ...], profile: Profile, results: Mapping[int, Results]) -> Section:
    """Return the cost of ordinary traffic by a number, such as that of topics, compared with the first of them."""
    section = Section(f"CPU per message by number of {what}s", columns)
    first = next(iter(results))
    for count, measured in results.items():
        label = f"{profile}, {_counted(count, what)}"
        rate, cpu = _each(measured, _rate), _each(measured, _cpu)
        section.rows += [
            Row(f"{label}: rate", rate, per_second, is_more_better=True),
            Row(f"{label}: CPU of the broker per message", cpu, microseconds),
        ]
        if count != first:
            growth = _growth(_each(results[first], _cpu), cpu)
            section.rows.append(
                Row(f"{label}: CPU compared with {_counted(first, what)}", growth, times, goal=_NO_GROWTH)
            )
        section.notes += _notes(label, measured)
    section.notes.insert(
        0, f"Ordinary traffic over {TOPICS} topics and {GROUPS} producer groups, except for this number."
    )
    return section


def keyed(columns: tuple[str, ...], body_size: int, profile: Profile, measured: Results) -> Section:
    section = Section(f"SEND_MESSAGE_V2, one topic with KEYS, {body_size} B, ASYNC_FLUSH", columns)
    _add_loads(section, {str(profile): (measured, _KEYED)})
    section.notes.insert(0, "One producer, bodies and KEYS of one size each, and TAGS.")
    return section


def batches(columns: tuple[str, ...], count: int, results: Mapping[str, Results]) -> Section:
    section = Section(f"SEND_BATCH_MESSAGE of {count}", columns)
    for label, measured in results.items():
        rate = _each(measured, lambda result: result.rate * count)
        cpu = _each(measured, lambda result: result.cpu_per_request / count)
        section.rows += [
            Row(f"{label}: messages", rate, per_second, is_more_better=True, goal=_BATCHED),
            Row(f"{label}: CPU of the broker per message", cpu, microseconds),
        ]
        section.notes += _notes(label, measured)
    return section


def pulls(columns: tuple[str, ...], count: int, profile: Profile, measured: Results) -> Section:
    section = Section(f"PULL_MESSAGE of {count} x 1 KiB", columns)
    moved = _each(measured, _bytes_per_second)
    cpu = _each(measured, lambda result: result.cpu_per_request / count)
    section.rows = [
        Row(f"{profile}: bytes", moved, _megabytes, is_more_better=True, goal=_PULLED),
        Row(f"{profile}: CPU of the broker per message", cpu, microseconds, goal=_PULL_CPU),
        Row(f"{profile}: p50", _each(measured, _p50), microseconds),
        Row(f"{profile}: p99", _each(measured, _p99), microseconds, goal=_P99),
    ]
    section.notes = _notes(str(profile), measured) + _empty_notes(measured)
    return section


def synced(
    columns: tuple[str, ...],
    profile: Profile,
    alike: Mapping[int, Results],
    traffic: Traffic,
    mixed: Results,
) -> Section:
    """Return the sends with SYNC_FLUSH: alike ones by body size, and ordinary traffic."""
    section = Section("SEND_MESSAGE_V2, SYNC_FLUSH", columns)
    _add_loads(
        section,
        {
            **{f"{profile}, {body_size} B": (measured, _ALIKE_SYNCED) for body_size, measured in alike.items()},
            f"{profile}, ordinary traffic over {traffic.topics} topics": (mixed, _ORDINARY_SYNCED),
        },
    )
    return section


def fairness(
    columns: tuple[str, ...], producers: Profile, kind: str, results: Mapping[str, Sequence[Fairness]]
) -> Section:
    """Return the figures of a client with one request in flight and of flooding producers, alone and together."""

    def rate(label: str, figure: Callable[[Fairness], float]) -> Row:
        return Row(label, _each(results, figure), per_second, is_more_better=True)

    def p99(label: str, figure: Callable[[Fairness], float], goal: Goal | None = None) -> Row:
        return Row(label, _each(results, figure), milliseconds, goal=goal)

    def share(label: str, figure: Callable[[Fairness], float], goal: Goal) -> Row:
        return Row(label, _each(results, figure), percent, is_more_better=True, goal=goal)

    section = Section(f"A client with one request in flight beside {producers}, {kind}", columns)
    section.rows = [
        rate("client alone: rate", lambda found: found.client_alone.rate),
        rate("client beside the producers: rate", lambda found: found.client_beside.rate),
        share("share of its rate that the client keeps", lambda found: found.client_share, _CLIENT_SHARE),
        p99("client alone: p99", lambda found: found.client_alone.p99),
        p99("client beside the producers: p99", lambda found: found.client_beside.p99, _CLIENT_P99),
        rate("producers alone: rate", lambda found: found.producers_alone.rate),
        rate("producers beside the client: rate", lambda found: found.producers_beside.rate),
        share("share of their rate that the producers keep", lambda found: found.producers_share, _PRODUCERS_SHARE),
    ]
    runs = {name: [result for found in rounds for result in found.results] for name, rounds in results.items()}
    section.notes = [
        f"The producers are {producers.connections} connections with {producers.in_flight:,} requests in flight on "
        "each. While one of both loads is measured, the other one starts earlier and ends later.",
        *_notes(str(producers), runs),
    ]
    return section


def mixed(
    columns: tuple[str, ...], producers: Profile, consumers: Profile, results: Mapping[str, Sequence[Mixed]]
) -> Section:
    """Return the figures of producers and consumers that use a broker at the same time."""
    section = Section(f"PULL_MESSAGE {consumers} of several groups beside SEND_MESSAGE_V2 {producers}", columns)
    sent, pulled = ({name: [found.results[side] for found in results[name]] for name in results} for side in (0, 1))
    empty = _each(pulled, lambda result: _empty_pulls(result) / result.answered)
    section.rows = [
        Row("sends: rate", _each(sent, _rate), per_second, is_more_better=True),
        Row("sends: p99", _each(sent, _p99), microseconds, goal=_P99),
        Row("pulls: rate", _each(pulled, _rate), per_second, is_more_better=True),
        Row("pulls: bytes", _each(pulled, _bytes_per_second), _megabytes, is_more_better=True),
        Row("pulls: p99", _each(pulled, _p99), microseconds, goal=_P99),
        Row("pulls that find no message", empty, percent),
        Row("CPU of the broker", _each(results, lambda found: found.cores), percent),
        Row("CPU of the broker per request", _each(results, lambda found: found.cpu_per_request), microseconds),
    ]
    expressions = ", ".join(f"`{subscription.expression}`" for subscription in SUBSCRIPTIONS)
    section.notes = [
        f"Producers send ordinary traffic over {TRAFFIC.topics} topics. {len(SUBSCRIPTIONS)} consumer groups "
        f"({expressions}) pull old messages, and the newest ones before the load, from the most popular topics; one in "
        "eight pulls is at the end of a queue without producers. Each load is measured while the other one runs. 100% "
        "of CPU is one core; CPU per request, a send or a pull, depends on how many of them are pulls.",
        *_notes("sends", sent),
        *_notes("pulls", pulled),
    ]
    return section


def java_clients(columns: tuple[str, ...], results: Mapping[str, Mapping[str, Sequence[JavaResult]]]) -> Section:
    section = Section("Java's own benchmark programs, 64 threads (5.5.0)", columns)
    for label, by_server in results.items():
        sent = {name: [result.sent for result in rounds] for name, rounds in by_server.items()}
        cpu = {name: [result.cpu_per_message for result in rounds if result.sent] for name, rounds in by_server.items()}
        section.rows += [
            Row(f"{label}: sent", sent, per_second, is_more_better=True, goal=_JAVA_RATE),
            Row(f"{label}: CPU of the broker per message", cpu, microseconds, goal=_JAVA_CPU),
        ]
        consumed = {name: [result.consumed for result in rounds] for name, rounds in by_server.items()}
        if any(max(rates) for rates in consumed.values()):
            section.rows.append(Row(f"{label}: consumed", consumed, per_second, is_more_better=True))
        failures = {name: sum(result.failed for result in rounds) for name, rounds in by_server.items()}
        section.notes += [f"{label}: {count} failed at {name}." for name, count in failures.items() if count]
    section.notes.insert(
        0,
        "Client and broker share the machine; each run has its own topics, and brokers take turns. With `async` "
        f"the Producer sends from one thread, at most {IN_FLIGHT_MAX:,} at a time; for batches, messages are counted. "
        "Over several topics, each has its own Producer with a share of the threads; its keys are the current second.",
    )
    return section


def idle(count: int, held: Mapping[str, tuple[Memory, Memory]]) -> Section:
    section = Section(f"{count:,} idle long polls on 100 connections", tuple(held))
    each = {name: [(after.resident - before.resident) / count] for name, (before, after) in held.items()}
    section.rows = [
        Row("resident before", {name: [float(first.resident)] for name, (first, _) in held.items()}, mebibytes),
        Row("growth per long poll", each, _bytes, goal=Goal(_POLL_SIZE, shown=_bytes)),
    ]
    section.notes = ["Java's heap may have free space from earlier loads; its growth then says little."]
    return section


def _add_loads(section: Section, loads: Mapping[str, tuple[Results, LoadGoals]]) -> None:
    """Add the rows and notes of each load, by its label."""
    for label, (measured, goals) in loads.items():
        section.rows += [
            Row(f"{label}: rate", _each(measured, _rate), per_second, is_more_better=True, goal=goals.rate),
            Row(f"{label}: CPU of the broker per message", _each(measured, _cpu), microseconds, goal=goals.cpu),
            Row(f"{label}: p50", _each(measured, _p50), microseconds),
            Row(f"{label}: p99", _each(measured, _p99), microseconds, goal=_P99),
        ]
        section.notes += _notes(label, measured)


def _growth(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Return the growth of each server in each round, from two loads of the same round."""
    return {
        name: [late / early for early, late in zip(before[name], after[name], strict=True)]
        for name in before
        if all(before[name])
    }


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _memory_rows(when: str, measured: Mapping[str, Memory]) -> list[Row]:
    resident = {name: [float(figures.resident)] for name, figures in measured.items()}
    anonymous = {name: [float(figures.anonymous)] for name, figures in measured.items()}
    return [
        Row(f"resident {when}", resident, mebibytes, goal=_RESIDENT),
        Row(f"anonymous {when}", anonymous, mebibytes),
    ]


def _notes(label: str, measured: Results) -> list[str]:
    """Return notes about the maximum rate of the generator, and about brokers that refused requests."""
    notes = []
    if GENERATOR_ALONE in measured:
        alone = max(measured[GENERATOR_ALONE], key=lambda result: result.rate)
        own = microseconds(alone.generator_cpu_seconds / alone.answered)
        notes.append(
            f"{label}: the generator reaches {per_second(alone.rate)} from a server that stores nothing "
            f"({own} of CPU each)."
        )
    for name, rounds in measured.items():
        refused = sum(result.refused for result in rounds if isinstance(result, CompiledResult))
        if refused:
            refusal = next(result.refusal for result in rounds if isinstance(result, CompiledResult) and result.refused)
            notes.append(f"{label}: {name} refused {refused:,} requests, the first with `{refusal}`.")
    return notes


def _empty_notes(measured: Results) -> list[str]:
    """Return notes about brokers that found no message where there are some."""
    empty = {name: sum(_empty_pulls(result) for result in rounds) for name, rounds in measured.items()}
    return [f"{name}: {count:,} pulls found no message." for name, count in empty.items() if count]


def _each(results: Mapping[str, Sequence[T]], figure: Callable[[T], float]) -> dict[str, list[float]]:
    return {name: [figure(result) for result in rounds] for name, rounds in results.items()}


def _rate(result: Result) -> float:
    return result.rate


def _cpu(result: Result) -> float:
    return result.cpu_per_request


def _p50(result: Result) -> float:
    return result.p50


def _p99(result: Result) -> float:
    return result.p99


def _bytes_per_second(result: Result) -> float:
    assert isinstance(result, CompiledResult)
    return result.body_bytes / result.seconds


def _empty_pulls(result: Result) -> int:
    assert isinstance(result, CompiledResult)
    return result.empty_pulls


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB/s"


def _bytes(value: float) -> str:
    return f"{value:,.0f} B"
