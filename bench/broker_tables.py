"""The tables of the broker benchmark, and their goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.brokers import NEWEST_4
from bench.compiled import CompiledResult
from bench.generator import Result
from bench.java_clients import IN_FLIGHT_MAX, JavaResult
from bench.measure import Memory
from bench.report import Goal, Row, Section, mebibytes, microseconds, per_second, seconds
from bench.run import GENERATOR_ALONE, Profile

Results = Mapping[str, Sequence[Result]]

_RATES = {Profile(4, 64): 1.5, Profile(64, 1): 1.0, Profile(1, 1): 2.0}
_CPU = Goal(0.5, is_ratio=True, than="4.9")
_P99 = Goal(1.0, is_ratio=True, than="4.9")
_PULLED = Goal(1.2, is_ratio=True, than="4.9", is_minimum=True)
_SYNCED = Goal(1.2, is_ratio=True, than="4.9", is_minimum=True)
_JAVA_RATE = Goal(1.0, is_ratio=True, than="4.9", is_minimum=True)
_JAVA_CPU = Goal(0.6, is_ratio=True, than="4.9")
_RESIDENT = Goal(0.1, is_ratio=True, than="4.9")
_READY = Goal(1.0, shown=seconds)
_POLL_SIZE = 4096


def footprint(
    ready: Mapping[str, Sequence[float]], before: Mapping[str, Memory], after: Mapping[str, Memory]
) -> Section:
    section = _section("Start-up and memory", tuple(ready))
    section.rows = [
        Row("from the start until the first request is answered", ready, seconds, goal=_READY, against=NEWEST_4),
        *_memory_rows("after start", before),
        *_memory_rows("after all loads", after),
    ]
    return section


def sends(columns: tuple[str, ...], body_size: int, results: Mapping[Profile, Results]) -> Section:
    section = _section(f"SEND_MESSAGE_V2, {body_size} B, ASYNC_FLUSH", columns)
    for profile, measured in results.items():
        goal = Goal(_RATES[profile], is_ratio=True, than="4.9", is_minimum=True)
        section.rows += _load_rows(str(profile), measured, goal, _CPU)
        section.notes += _notes(str(profile), measured)
    section.notes.insert(
        0, "4x64 is four connections with 64 requests in flight on each; every message has another key."
    )
    return section


def batches(columns: tuple[str, ...], count: int, results: Mapping[str, Results]) -> Section:
    section = _section(f"SEND_BATCH_MESSAGE of {count}", columns)
    for label, measured in results.items():
        rate = _each(measured, lambda result: result.rate * count)
        cpu = _each(measured, lambda result: result.cpu_per_request / count)
        section.rows += [
            Row(f"{label}: messages", rate, per_second, is_more_better=True, against=NEWEST_4),
            Row(f"{label}: CPU of the broker per message", cpu, microseconds, against=NEWEST_4),
        ]
        section.notes += _notes(label, measured)
    return section


def pulls(columns: tuple[str, ...], count: int, profile: Profile, measured: Results) -> Section:
    section = _section(f"PULL_MESSAGE of {count} x 1 KiB", columns)
    moved = _each(measured, lambda result: _body_bytes(result) / result.seconds)
    cpu = _each(measured, lambda result: result.cpu_per_request / count)
    section.rows = [
        Row(f"{profile}: bytes", moved, _megabytes, is_more_better=True, goal=_PULLED, against=NEWEST_4),
        Row(f"{profile}: CPU of the broker per message", cpu, microseconds, goal=_CPU, against=NEWEST_4),
        Row(f"{profile}: p50", _each(measured, _p50), microseconds, against=NEWEST_4),
        Row(f"{profile}: p99", _each(measured, _p99), microseconds, goal=_P99, against=NEWEST_4),
    ]
    section.notes = _notes(str(profile), measured)
    return section


def synced(columns: tuple[str, ...], profile: Profile, results: Mapping[int, Results]) -> Section:
    section = _section("SEND_MESSAGE_V2, SYNC_FLUSH", columns)
    for body_size, measured in results.items():
        section.rows += _load_rows(f"{profile}, {body_size} B", measured, _SYNCED, None)
        section.notes += _notes(f"{profile}, {body_size} B", measured)
    return section


def java_clients(columns: tuple[str, ...], results: Mapping[str, Mapping[str, Sequence[JavaResult]]]) -> Section:
    section = _section("Java's own benchmark programs, 64 threads (5.5.0)", columns)
    for label, by_server in results.items():
        sent = {name: [result.sent for result in rounds] for name, rounds in by_server.items()}
        cpu = {name: [result.cpu_per_message for result in rounds if result.sent] for name, rounds in by_server.items()}
        section.rows += [
            Row(f"{label}: sent", sent, per_second, is_more_better=True, goal=_JAVA_RATE, against=NEWEST_4),
            Row(f"{label}: CPU of the broker per message", cpu, microseconds, goal=_JAVA_CPU, against=NEWEST_4),
        ]
        consumed = {name: [result.consumed for result in rounds] for name, rounds in by_server.items()}
        if any(max(rates) for rates in consumed.values()):
            section.rows.append(Row(f"{label}: consumed", consumed, per_second, is_more_better=True, against=NEWEST_4))
        failures = {name: sum(result.failed for result in rounds) for name, rounds in by_server.items()}
        section.notes += [f"{label}: {count} failed at {name}." for name, count in failures.items() if count]
    section.notes.insert(
        0,
        "Client and broker share the machine; each run has its own topic, and brokers take turns. With `async` "
        f"the Producer sends from one thread, at most {IN_FLIGHT_MAX:,} at a time; for batches, messages are counted.",
    )
    return section


def idle(count: int, held: Mapping[str, tuple[Memory, Memory]]) -> Section:
    section = _section(f"{count:,} idle long polls on 100 connections", tuple(held))
    each = {name: [(after.resident - before.resident) / count] for name, (before, after) in held.items()}
    section.rows = [
        Row("resident before", {name: [float(first.resident)] for name, (first, _) in held.items()}, mebibytes),
        Row("growth per long poll", each, _bytes, goal=Goal(_POLL_SIZE, shown=_bytes)),
    ]
    section.notes = ["Java's heap may have free space from earlier loads; its growth then says little."]
    return section


def _section(title: str, columns: tuple[str, ...]) -> Section:
    return Section(title, columns, than=NEWEST_4)


def _load_rows(label: str, measured: Results, rate_goal: Goal, cpu_goal: Goal | None) -> list[Row]:
    rate, cpu = _each(measured, lambda result: result.rate), _each(measured, lambda result: result.cpu_per_request)
    return [
        Row(f"{label}: rate", rate, per_second, is_more_better=True, goal=rate_goal, against=NEWEST_4),
        Row(f"{label}: CPU of the broker per message", cpu, microseconds, goal=cpu_goal, against=NEWEST_4),
        Row(f"{label}: p50", _each(measured, _p50), microseconds, against=NEWEST_4),
        Row(f"{label}: p99", _each(measured, _p99), microseconds, goal=_P99, against=NEWEST_4),
    ]


def _memory_rows(when: str, measured: Mapping[str, Memory]) -> list[Row]:
    resident = {name: [float(figures.resident)] for name, figures in measured.items()}
    anonymous = {name: [float(figures.anonymous)] for name, figures in measured.items()}
    return [
        Row(f"resident {when}", resident, mebibytes, goal=_RESIDENT, against=NEWEST_4),
        Row(f"anonymous {when}", anonymous, mebibytes, against=NEWEST_4),
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


def _each(results: Results, figure: Callable[[Result], float]) -> dict[str, list[float]]:
    return {name: [figure(result) for result in rounds] for name, rounds in results.items()}


def _p50(result: Result) -> float:
    return result.p50


def _p99(result: Result) -> float:
    return result.p99


def _body_bytes(result: Result) -> int:
    assert isinstance(result, CompiledResult)
    return result.body_bytes


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB/s"


def _bytes(value: float) -> str:
    return f"{value:,.0f} B"
