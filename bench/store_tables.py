"""The tables of the store benchmark, and their goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.measure import MIB
from bench.report import KEROLOX, Goal, Row, Section, mebibytes, per_second, seconds
from bench.store_queues import QueueCosts
from bench.store_rates import IN_FLIGHT, READ_COUNT_MAX, Load, Rates
from bench.store_recovery import GIB, Cost, Kind, Recoveries
from kerolox.store.config import FlushDiskType

_PLAIN_WRITE, _PLAIN_READ, _PLAIN_SCAN = "plain write", "plain read", "plain read and CRC"
_CLEAN = Goal(2.0, shown=lambda value: f"{value:g} s/GiB")
_CRASHED = Goal(6.0, shown=lambda value: f"{value:g} s/GiB")
_RESIDENT = Goal(300 * MIB, shown=mebibytes)
_FILES = Goal(4_000, shown=lambda value: f"{value:,.0f}")


def appends(flush: FlushDiskType, rates: Mapping[Load, Mapping[str, Rates]]) -> Section:
    section = Section(f"Appending, {flush.value}", (KEROLOX, _PLAIN_WRITE), than="plain")
    section.rows = [
        _rate_row(f"{load}: {method}", found, _PLAIN_WRITE)
        for load, by_method in rates.items()
        for method, found in by_method.items()
    ]
    synced = " and an fdatasync after each" if flush is FlushDiskType.SYNC_FLUSH else ""
    section.notes = [
        f"`put`: {IN_FLIGHT} tasks, each with one message in flight. `append`: {IN_FLIGHT} messages per call. "
        f"Consume queues, key index and background services are active. Plain: the same bytes with `os.pwrite`, "
        f"{IN_FLIGHT} messages at a time{synced}."
    ]
    return section


def reads(rates: Mapping[Load, Rates]) -> Section:
    section = Section("Reading", (KEROLOX, _PLAIN_READ), than="plain")
    section.rows = [_rate_row(str(load), found, _PLAIN_READ) for load, found in rates.items()]
    section.notes = [
        f"At most {READ_COUNT_MAX} messages or 256 KiB at once, from the page cache. Plain: `os.pread` of the same "
        "bytes, with one call for each contiguous range."
    ]
    return section


def recovery(found: Mapping[Kind, Recoveries]) -> Section:
    section = Section("Opening", (KEROLOX, _PLAIN_SCAN), than="plain")
    for kind, each in found.items():
        label = str(kind)
        for when, costs, goal in (
            ("after a clean stop", each.clean, _CLEAN),
            ("after a crash", each.crashed, _CRASHED),
            ("after a crash, all flushed", each.flushed, _CRASHED),
        ):
            section.rows += [
                _cost_row(f"{label}, {when}", costs, each.plain, goal),
                _cost_row(f"{label}, {when}: CPU", costs, each.plain, None, field="cpu"),
            ]
        section.notes.append(f"{label}: {each.records:,} records in {each.size / GIB:.2f} GiB.")
    section.notes.append(
        "Seconds per GiB of the log, from the page cache. After a crash: the process was killed when the log was "
        "durable, but consume queues and key index were not; the whole log is read and dispatched again. All flushed: "
        "the same with queues, index and checkpoint durable."
    )
    return section


def queues(count: int, written: QueueCosts, opened: QueueCosts, crashed: QueueCosts) -> Section:
    section = Section(f"{count:,} queues", (KEROLOX,), than="plain")
    resident, files = (_RESIDENT, _FILES) if count >= 50_000 else (None, None)
    for label, costs in (("written", written), ("opened", opened), ("opened after a crash", crashed)):
        section.rows += [
            _one(f"{label}: time", costs.seconds, seconds),
            _one(f"{label}: resident", costs.resident, mebibytes, resident),
            _one(f"{label}: growth", costs.resident - costs.resident_before, mebibytes),
            _one(f"{label}: open files", costs.files, lambda value: f"{value:,.0f}", files),
            _one(f"{label}: time to close", costs.close_seconds, seconds),
        ]
    section.notes = ["One message in each queue; the time to write includes flushing and syncing everything."]
    return section


def _rate_row(label: str, rates: Rates, plain: str) -> Row:
    return Row(label, {KEROLOX: rates.ours, plain: rates.plain}, per_second, is_more_better=True)


def _cost_row(label: str, ours: list[Cost], plain: list[Cost], goal: Goal | None, field: str = "seconds") -> Row:
    values = {name: [getattr(cost, field) for cost in costs] for name, costs in ((KEROLOX, ours), (_PLAIN_SCAN, plain))}
    return Row(label, values, seconds, goal=goal)


def _one(label: str, value: float, shown: Callable[[float], str], goal: Goal | None = None) -> Row:
    return Row(label, {KEROLOX: [value]}, shown, goal=goal)
