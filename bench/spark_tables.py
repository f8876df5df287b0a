"""The tables of the Spark benchmark, and their goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.report import KEROLOX, Goal, Row, Section, mebibytes, per_second, seconds
from bench.spark_backlog import Backlog
from bench.spark_rates import ARROW, BATCHES, BROKER_PATH, KAFKA, PARQUET, Rates

_OF_ARROW = Goal(0.7, is_ratio=True, is_minimum=True, than="Arrow")
_OF_KAFKA = Goal(1.0, is_ratio=True, is_minimum=True, than=KAFKA)
_OF_BROKERS = Goal(3.0, is_ratio=True, is_minimum=True, than="brokers")
_ROWS_WRITTEN = 100_000.0
_GIB = 2**30
_SCALING = 1.0


@dataclass(frozen=True, slots=True)
class _Written(Goal):
    """A goal met by a rate in rows per second, or by a multiple of Kafka's rate."""

    @property
    def text(self) -> str:
        return f"≥ {per_second(_ROWS_WRITTEN)} or {self.limit:g}x {KAFKA}"

    def is_met(self, ours: float, other: float | None) -> bool:
        return ours >= _ROWS_WRITTEN or (other is not None and ours >= self.limit * other)


def reads(found: Mapping[tuple[str, str], Rates]) -> list[Section]:
    """Return a table compared with the API ceiling and Parquet, and one compared with Kafka."""
    ceiling = Section("From a topic, 1 KiB bodies", (KEROLOX, ARROW, PARQUET), than=ARROW)
    kafka = Section("From a topic, compared with Kafka's source", (KEROLOX, KAFKA), than=KAFKA)
    for (kind, target), rates in found.items():
        label = f"{kind} to {target}: rows"
        ceiling.rows.append(Row(label, rates, per_second, is_more_better=True, goal=_OF_ARROW, against=ARROW))
        kafka.rows.append(Row(label, rates, per_second, is_more_better=True, goal=_OF_KAFKA, against=KAFKA))
    ceiling.notes = [
        f"{ARROW} is a Python data source that only returns a prebuilt batch with the same columns: no Python data "
        f"source can be faster. {PARQUET} has the same rows and columns. A stream has {BATCHES} batches.",
    ]
    kafka.notes = ["Kafka's rows have the columns of its source, the key is empty, and the value is the same body."]
    return [ceiling, kafka]


def writes(rates: Rates) -> Section:
    section = Section("To a topic on two brokers, 1 KiB bodies", (KEROLOX, KAFKA), than=KAFKA)
    goal = _Written(2.0, is_minimum=True)
    section.rows = [Row("rows", rates, per_second, is_more_better=True, goal=goal, against=KAFKA)]
    section.notes = ["Both sinks read the bodies from Parquet and use their defaults; Kafka has one broker."]
    return section


def stores(rates: Rates) -> Section:
    section = Section(
        "Store files of two brokers, read without the brokers", (KEROLOX, BROKER_PATH, ARROW), than=BROKER_PATH
    )
    row = Row(
        "rocketmq-store to noop: rows",
        rates,
        per_second,
        is_more_better=True,
        goal=_OF_BROKERS,
        against=BROKER_PATH,
    )
    section.rows = [row]
    section.notes = [
        "The broker path pulls the same rows from the brokers. Checksums are verified. "
        f"{ARROW} is the upper limit again: if the broker path reaches more than a third of it, no Python data source "
        "can be three times as fast as the broker path."
    ]
    return section


def decoding(decoded: Sequence[float], pulled: Sequence[float]) -> Section:
    section = Section("CPU of a Python worker for a record of 1 KiB", (KEROLOX,), than="goal")
    section.rows = [
        Row("to decode it to columns", {KEROLOX: decoded}, _microseconds, goal=Goal(1.5e-6, shown=_microseconds)),
        Row("to receive it", {KEROLOX: pulled}, _microseconds),
    ]
    return section


def backlog(found: Backlog) -> Section:
    section = Section(f"A backlog of {found.rows:,} small messages", (KEROLOX, _ALONE), than=_ALONE)
    one, two = found.read_seconds[1], found.read_seconds[2]
    memory = Goal(float(_GIB), shown=mebibytes)
    faster = Goal(_SCALING, is_ratio=True, than="one task")
    section.rows = [
        Row("seconds to read it with two tasks", {KEROLOX: two, _ALONE: one}, seconds, goal=faster),
        Row(
            "rows read",
            {KEROLOX: [found.rows / each for each in two], _ALONE: [found.rows / each for each in one]},
            per_second,
            is_more_better=True,
        ),
        Row("largest worker while it is read", {KEROLOX: [float(found.read_memory)]}, mebibytes, goal=memory),
        Row("rows written", {KEROLOX: [found.rows / found.write_seconds]}, per_second, is_more_better=True),
        Row("largest worker while it is written", {KEROLOX: [float(found.write_memory)]}, mebibytes, goal=memory),
    ]
    section.notes = ["Count and sums of the rows read equal those of the rows written."]
    return section


_ALONE = "one alone"


def _microseconds(value: float) -> str:
    return f"{value * 1e6:.2f} µs"
