"""Figures and their goals."""

from __future__ import annotations

from bench.report import Goal


def test_beside_nothing_no_goal_is_met() -> None:
    for is_minimum in (True, False):
        assert not Goal(1.0, is_ratio=True, is_minimum=is_minimum).is_met(5.0, [0.0])
