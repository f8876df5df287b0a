"""The benchmark of `kerolox up`: measurement and tables."""

from __future__ import annotations

from bench.measure import MIB
from bench.report import KEROLOX
from bench.up import WITH_DASHBOARD, Started, ours, sections


def test_it_is_started_measured_and_stopped() -> None:
    started = ours(with_dashboard=False)

    assert 0 < started.seconds < 60
    assert 5 * MIB < started.resident < 100 * MIB


def test_goals_are_those_with_and_without_a_dashboard() -> None:
    shown = sections({KEROLOX: [Started(0.3, 30 * MIB)], WITH_DASHBOARD: [Started(1.5, 170 * MIB)]})

    assert [[row.verdict() for row in section.rows] for section in shown] == [["met", "met"], ["MISSED", "MISSED"]]
    assert [row.goal.text for section in shown for row in section.rows if row.goal] == [
        "≤ 1.00 s",
        "≤ 100.0 MiB",
        "≤ 1.00 s",
        "≤ 160.0 MiB",
    ]
