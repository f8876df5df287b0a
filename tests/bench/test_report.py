"""Figures and their goals."""

from __future__ import annotations

import pytest

from bench.report import BEST_OTHER, KEROLOX, Goal, Row, Section


def test_a_goal_without_comparison_is_not_met() -> None:
    for is_minimum in (True, False):
        assert not Goal(1.0, is_ratio=True, is_minimum=is_minimum).is_met(5.0, 0.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [([5.0], [4.0], "met"), ([3.0], [4.0], "MISSED"), ([5.0], [0.0], "not measured"), ([0.0], [0.0], "not measured")],
)
def test_a_failed_load_has_no_verdict(ours: list[float], theirs: list[float], verdict: str) -> None:
    goal = Goal(1.0, is_ratio=True, is_minimum=True)
    row = Row("sent", {KEROLOX: ours, "Apache 4.9.7": theirs}, str, is_more_better=True, goal=goal)

    assert row.verdict() == verdict


def test_a_zero_rate_misses_the_goal() -> None:
    row = Row(
        *("sent", {KEROLOX: [0.0], "Apache 4.9.7": [4.0]}, str),
        is_more_better=True,
        goal=Goal(1.0, is_ratio=True, is_minimum=True),
    )

    assert row.verdict() == "MISSED"


def _row(ours: float, older: float, newer: float, *, is_more_better: bool, limit: float) -> Row:
    values = {KEROLOX: [ours], "Apache 4.9.7": [older], "Apache 5.5.0": [newer], "generator alone": [1000.0]}
    goal = Goal(limit, is_ratio=True, is_minimum=is_more_better)
    return Row("figure", values, str, is_more_better=is_more_better, goal=goal)


@pytest.mark.parametrize(
    ("older", "newer", "ratio", "verdict"),
    [
        (100.0, 50.0, "1.90x of 4.9.7", "MISSED"),
        (50.0, 100.0, "1.90x of 5.5.0", "MISSED"),
        (95.0, 50.0, "2.00x of 4.9.7", "met"),
    ],
)
def test_a_rate_is_compared_with_the_fastest_other(older: float, newer: float, ratio: str, verdict: str) -> None:
    row = _row(190.0, older, newer, is_more_better=True, limit=2.0)

    assert (row.ratio(), row.verdict()) == (ratio, verdict)


@pytest.mark.parametrize(
    ("older", "newer", "ratio", "verdict"),
    [(10.0, 30.0, "0.60x of 4.9.7", "MISSED"), (30.0, 12.0, "0.50x of 5.5.0", "met")],
)
def test_a_cost_is_compared_with_the_other_that_has_the_lowest(
    older: float, newer: float, ratio: str, verdict: str
) -> None:
    row = _row(6.0, older, newer, is_more_better=False, limit=0.5)

    assert (row.ratio(), row.verdict()) == (ratio, verdict)


@pytest.mark.parametrize("is_more_better", [True, False])
def test_an_other_whose_load_failed_is_not_the_best(is_more_better: bool) -> None:
    row = _row(6.0, 0.0, 12.0, is_more_better=is_more_better, limit=0.5)

    assert row.best_other() == ("Apache 5.5.0", 12.0)
    assert (row.ratio(), row.verdict()) == ("0.50x", "met")


def test_a_row_against_one_other_ignores_better_ones() -> None:
    values = {KEROLOX: [6.0], "Apache 4.9.7": [3.0], "Apache 5.5.0": [12.0]}
    row = Row("rate", values, str, is_more_better=True, against="Apache 4.9.7")

    assert row.best_other() == ("Apache 4.9.7", 3.0)
    assert row.ratio() == "2.00x"


def test_a_table_names_the_best_other_in_its_heading_and_goals() -> None:
    section = Section("Sends", (KEROLOX,), [_row(3.0, 1.0, 2.0, is_more_better=True, limit=1.2)])

    assert section.header()[2] == f"Kerolox / {BEST_OTHER}"
    assert section.lines()[0][2:] == ["1.50x of 5.5.0", f"≥ 1.2x {BEST_OTHER}", "met"]
