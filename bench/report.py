"""The results of a run as tables: on the terminal, and as Markdown for the documentation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

KEROLOX = "Kerolox"
ABSENT = "–"
# Column heading and goals of rows that compare Kerolox with the best of several others.
BEST_OTHER = "best other"
# Prefixes of the columns that Kerolox is compared with.
_BASELINES = ("Apache", "plain", "C++", "one alone", "prebuilt", "Kafka", "Parquet", "broker path")


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on our value, or on its ratio to the other value of the same run that the row is compared with."""

    limit: float
    is_ratio: bool = False
    is_minimum: bool = False
    shown: Callable[[float], str] = str
    than: str = BEST_OTHER

    @property
    def text(self) -> str:
        sign = "≥" if self.is_minimum else "≤"
        return f"{sign} {self.limit:g}x {self.than}" if self.is_ratio else f"{sign} {self.shown(self.limit)}"

    def is_met(self, ours: float, other: float | None) -> bool:
        value = ratio(ours, other) if self.is_ratio else ours
        return value >= self.limit if self.is_minimum else value <= self.limit


class Other(NamedTuple):
    """A server that Kerolox is compared with, and the median of its rounds."""

    name: str
    median: float


@dataclass(frozen=True, slots=True)
class Row:
    """One metric: for each server, the value of every round.

    Kerolox is compared with the other that is best in this row, or with the one named `against`.
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

    def others(self) -> list[Other]:
        """Return the others that Kerolox is compared with, without those whose load failed: their figure is zero."""
        compared = [name for name in self.values if is_baseline(name) and self.against in (None, name)]
        medians = [Other(name, median) for name in compared if (median := self.median(name)) is not None]
        return [other for other in medians if other.median > 0]

    def best_other(self) -> Other | None:
        """Return the other with the highest figure, or the lowest if less is better: of rates the fastest."""
        choose = max if self.is_more_better else min
        return choose(self.others(), key=lambda other: other.median, default=None)

    def ratio(self) -> str:
        """Return our figure as a multiple of the best other, which is named if there are several."""
        ours, best = self.median(KEROLOX), self.best_other()
        if ours is None or best is None:
            return ABSENT
        name = f" of {best.name.rpartition(' ')[2]}" if len(self.others()) > 1 else ""
        return f"{ratio(ours, best.median):.2f}x{name}"

    def verdict(self) -> str:
        ours, best = self.median(KEROLOX), self.best_other()
        if self.goal is None:
            return ""
        if ours is None or (self.goal.is_ratio and best is None):
            # There is nothing to compare with, for example because the other load failed.
            return "not measured"
        return "met" if self.goal.is_met(ours, best.median if best else None) else "MISSED"


@dataclass(slots=True)
class Section:
    """A table and its explanatory notes."""

    title: str
    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    than: str = BEST_OTHER

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


def ratio(ours: float, other: float | None) -> float:
    """Return our value as a multiple of the other; NaN, which meets no goal, if there is none or it is zero."""
    return ours / other if other else math.nan


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


def percent(value: float) -> str:
    return f"{value:.1%}"
