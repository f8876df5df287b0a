"""Figures and their goals."""

from __future__ import annotations

import pytest

from bench.report import KEROLOX, Goal, Row


def test_beside_nothing_no_goal_is_met() -> None:
    for is_minimum in (True, False):
        assert not Goal(1.0, is_ratio=True, is_minimum=is_minimum).is_met(5.0, [0.0])


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [([5.0], [4.0], "met"), ([3.0], [4.0], "MISSED"), ([5.0], [0.0], "not measured"), ([0.0], [0.0], "not measured")],
)
def test_where_nothing_came_of_a_load_there_is_no_verdict(ours: list[float], theirs: list[float], verdict: str) -> None:
    goal = Goal(1.0, is_ratio=True, is_minimum=True)
    row = Row("sent", {KEROLOX: ours, "Apache 4.9.7": theirs}, str, is_more_better=True, goal=goal)

    assert row.verdict() == verdict


def test_a_rate_of_nothing_beside_one_that_has_some_is_missed() -> None:
    row = Row(
        *("sent", {KEROLOX: [0.0], "Apache 4.9.7": [4.0]}, str),
        is_more_better=True,
        goal=Goal(1.0, is_ratio=True, is_minimum=True),
    )

    assert row.verdict() == "MISSED"
