"""The results of a run as tables: on the terminal, and as Markdown for the documentation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

KEROLOX = "Kerolox"
ABSENT = "–"
# Prefixes of the columns that Kerolox is compared with.
_BASELINES = ("Apache", "plain", "C++", "one alone", "prebuilt", "Kafka", "Parquet", "broker path")


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on our value, or on its ratio to the best other value of the same run."""

    limit: float
    is_ratio: bool = False
    is_minimum: bool = False
    shown: Callable[[float], str] = str
    than: str = "Java"

    @property
    def text(self) -> str:
        sign = "≥" if self.is_minimum else "≤"
        return f"{sign} {self.limit:g}x {self.than}" if self.is_ratio else f"{sign} {self.shown(self.limit)}"

    def is_met(self, ours: float, others: Sequence[float]) -> bool:
        value = ratio(ours, others, is_more_better=self.is_minimum) if self.is_ratio else ours
        return value >= self.limit if self.is_minimum else value <= self.limit


@dataclass(frozen=True, slots=True)
class Row:
    """One metric: for each server, the value of every round.

    Kerolox is compared with the best of the others, or with the one named `against`.
    """

    label: str
    values: Mapping[str, Sequence[float]]
    shown: Callable[[float], str]
    is_more_better: bool = False
    goal: Goal | None = None
    against: str | None = None

    def median(self, name: str) -> float | None:
        return statistics.median(self.values[name]) if self.values.get(name) else None

    def cell(self, name: str) -> str:
        """Return the median of the rounds, and the best value if there are several rounds."""
        rounds = self.values.get(name)
        if not rounds:
            return ABSENT
        median = self.shown(statistics.median(rounds))
        best = self.shown(max(rounds) if self.is_more_better else min(rounds))
        return f"{median} ({best})" if len(rounds) > 1 else median

    def others(self) -> list[float]:
        baselines = {name: rounds for name, rounds in self.values.items() if rounds and is_baseline(name)}
        if self.against is not None:
            baselines = {name: rounds for name, rounds in baselines.items() if name == self.against}
        return [statistics.median(rounds) for rounds in baselines.values()]

    def ratio(self) -> str:
        ours, others = self.median(KEROLOX), self.others()
        if ours is None or not others or not min(others):
            return ABSENT
        return f"{ratio(ours, others, is_more_better=self.is_more_better):.2f}x"

    def verdict(self) -> str:
        ours = self.median(KEROLOX)
        if self.goal is None:
            return ""
        if ours is None or (self.goal.is_ratio and not (self.others() and all(self.others()))):
            # There is nothing to compare with, for example because the other load failed.
            return "not measured"
        return "met" if self.goal.is_met(ours, self.others()) else "MISSED"


@dataclass(slots=True)
class Section:
    """A table and its explanatory notes."""

    title: str
    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    than: str = "Java"

    def header(self) -> list[str]:
        return ["", *self.columns, f"{KEROLOX} / {self.than}", "goal", ""]

    def lines(self) -> list[list[str]]:
        return [
            [
                row.label,
                *(row.cell(name) for name in self.columns),
                row.ratio(),
                row.goal.text if row.goal else "",
                row.verdict(),
            ]
            for row in self.rows
        ]


@dataclass(slots=True)
class Report:
    """All tables of a run, and the facts about the machine and the run."""

    title: str
    command: str
    facts: Mapping[str, str]
    sections: list[Section]

    def print(self, console: Console) -> None:
        console.rule(self.title)
        console.print(f"$ {self.command}")
        for name, fact in self.facts.items():
            console.print(f"{name}: {fact}", highlight=False)
        for section in self.sections:
            table = Table(title=section.title, title_justify="left")
            for number, heading in enumerate(section.header()):
                table.add_column(heading, justify="right" if number else "left")
            for line in section.lines():
                colour = {"met": "green", "MISSED": "red"}.get(line[-1], "dim")
                table.add_row(*line[:-1], f"[{colour}]{line[-1]}[/]")
            console.print(table)
            for note in section.notes:
                console.print(f"  {note}", highlight=False)

    def markdown(self) -> str:
        parts = [f"# {self.title}", f"Measured with `{self.command}`:"]
        parts.append("\n".join(f"- {name}: {fact}" for name, fact in self.facts.items()))
        for section in self.sections:
            rows = [section.header(), ["---", *["---:"] * (len(section.header()) - 1)], *section.lines()]
            parts.append(f"## {section.title}")
            parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in rows))
            parts.extend(section.notes)
        return "\n\n".join(parts) + "\n"


def ratio(ours: float, others: Sequence[float], *, is_more_better: bool) -> float:
    """Return our value as a multiple of the best other value; NaN, which meets no goal, if that is zero."""
    best = max(others) if is_more_better else min(others)
    return ours / best if best else math.nan


def is_baseline(name: str) -> bool:
    return name.startswith(_BASELINES)


def per_second(value: float) -> str:
    return f"{value:,.0f}/s"


def microseconds(value: float) -> str:
    return f"{value * 1e6:,.1f} µs"


def milliseconds(value: float) -> str:
    return f"{value * 1e3:,.2f} ms"


def seconds(value: float) -> str:
    return f"{value:.2f} s"


def mebibytes(value: float) -> str:
    return f"{value / 2**20:,.1f} MiB"


def times(value: float) -> str:
    return f"{value:.2f}x"
