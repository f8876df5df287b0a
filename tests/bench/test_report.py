"""Figures and their goals."""

from __future__ import annotations

import pytest

from bench.report import KEROLOX, Goal, Row


def test_a_goal_without_comparison_is_not_met() -> None:
    for is_minimum in (True, False):
        assert not Goal(1.0, is_ratio=True, is_minimum=is_minimum).is_met(5.0, [0.0])


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
