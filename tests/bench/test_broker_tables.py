"""Goals in the tables of the broker benchmark."""

from __future__ import annotations

import pytest

from bench import broker_tables as tables
from bench.fairness import Fairness
from bench.generator import Result
from bench.ordinary import Traffic
from bench.report import KEROLOX, Section
from bench.run import Profile

OLDER, NEWER = "Apache 4.9.7", "Apache 5.5.0"
COLUMNS = (KEROLOX, OLDER, NEWER)
PIPELINED = Profile(4, 64)
TRAFFIC = Traffic()


def result(rate: float, cpu: float = 1e-6, p99: float = 0.001) -> Result:
    return Result(int(rate), 1.0, cpu * int(rate), 0.0, p99 / 2, p99, [])


def results(ours: Result, older: Result, newer: Result) -> tables.Results:
    return dict(zip(COLUMNS, ([ours], [older], [newer]), strict=True))


def last_cells(section: Section) -> dict[str, list[str]]:
    """Return ratio, goal and verdict of each row with a goal, by its label."""
    return {line[0]: line[-3:] for line in section.lines() if line[-1]}


def test_alike_sends_are_compared_with_the_best_broker_of_each_row() -> None:
    measured = results(result(210, 7e-6, 0.002), result(100, 25e-6, 0.003), result(90, 18e-6, 0.001))

    found = last_cells(tables.sends(COLUMNS, 128, {PIPELINED: measured}))

    assert found == {
        "4x64: rate": ["2.10x of 4.9.7", "≥ 2x best other", "met"],
        "4x64: CPU of the broker per message": ["0.39x of 5.5.0", "≤ 0.35x best other", "MISSED"],
        "4x64: p99": ["2.00x of 5.5.0", "≤ 1x best other", "MISSED"],
    }


@pytest.mark.parametrize(
    ("profile", "goals"),
    [
        (PIPELINED, ["≥ 1.2x best other", "≤ 0.6x best other", "", "≤ 1x best other"]),
        (Profile(64, 1), ["≥ 1x best other", "", "", "≤ 1x best other"]),
    ],
)
def test_ordinary_traffic_has_goals_of_its_own(profile: Profile, goals: list[str]) -> None:
    measured = results(result(120), result(100), result(90))

    section = tables.ordinary(COLUMNS, TRAFFIC, {profile: measured})

    assert "over 32 topics" in section.title
    assert [line[-2] for line in section.lines()] == goals


def test_even_traffic_is_named_by_its_queues_and_has_the_goals_of_ordinary_traffic() -> None:
    measured = results(result(110), result(100), result(90))

    section = tables.ordinary(COLUMNS, Traffic(topics=125, is_even=True), {PIPELINED: measured})

    assert section.title == "SEND_MESSAGE_V2, ordinary traffic over 1,000 queues of 125 topics, ASYNC_FLUSH"
    assert last_cells(section)["4x64: rate"] == ["1.10x of 4.9.7", "≥ 1.2x best other", "MISSED"]
    assert section.notes[0].startswith("Queues of equal popularity")


def test_with_sync_flush_alike_sends_have_a_higher_goal_than_ordinary_traffic() -> None:
    measured = results(result(150), result(100), result(90))

    found = last_cells(tables.synced(COLUMNS, PIPELINED, {128: measured}, TRAFFIC, measured))

    assert found["4x64, 128 B: rate"] == ["1.50x of 4.9.7", "≥ 2x best other", "MISSED"]
    assert found["4x64, ordinary traffic over 32 topics: rate"] == ["1.50x of 4.9.7", "≥ 1.2x best other", "met"]


def test_keys_on_one_topic_have_a_goal_for_the_rate() -> None:
    measured = results(result(175), result(100), result(90))

    found = last_cells(tables.keyed(COLUMNS, 300, PIPELINED, measured))

    assert found["4x64: rate"] == ["1.75x of 4.9.7", "≥ 1.8x best other", "MISSED"]


def test_batches_have_a_goal_for_the_rate() -> None:
    found = last_cells(tables.batches(COLUMNS, 32, {"4x8": results(result(119), result(90), result(100))}))

    assert found == {"4x8: messages": ["1.19x of 5.5.0", "≥ 1.2x best other", "MISSED"]}


def test_cpu_may_grow_by_a_quarter_from_one_topic_to_many() -> None:
    def cost(ours: float) -> tables.Results:
        return results(result(100, ours), result(100, 2e-5), result(100, 2e-5))

    section = tables.by_number("topic", COLUMNS, PIPELINED, {1: cost(10e-6), 4: cost(12e-6), 256: cost(13e-6)})

    assert section.title == "CPU per message by number of topics"
    assert {line[0]: line[1] for line in section.lines()}["4x64, 1 topic: CPU of the broker per message"] == "10.0 µs"
    verdicts = {label: (goal, verdict) for label, (_, goal, verdict) in last_cells(section).items()}
    assert verdicts == {
        "4x64, 4 topics: CPU compared with 1 topic": ("≤ 1.25x", "met"),
        "4x64, 256 topics: CPU compared with 1 topic": ("≤ 1.25x", "MISSED"),
    }


@pytest.mark.parametrize(
    ("client_rate", "client_p99", "producers_rate", "verdicts"),
    [(250, 0.049, 9500, ["met", "met", "met"]), (249, 0.051, 9499, ["MISSED", "MISSED", "MISSED"])],
)
def test_fairness_has_goals_for_both_sides(
    client_rate: float, client_p99: float, producers_rate: float, verdicts: list[str]
) -> None:
    ours = Fairness(result(1000), result(client_rate, p99=client_p99), result(10_000), result(producers_rate))
    theirs = Fairness(result(1000), result(10), result(10_000), result(5000))

    section = tables.fairness(
        (KEROLOX, OLDER), Profile(8, 1000), "alike sends of 128 B", {KEROLOX: [ours], OLDER: [theirs]}
    )

    assert section.title == "A client with one request in flight beside 8x1000, alike sends of 128 B"
    shown = last_cells(section)
    assert list(shown) == [
        "share of its rate that the client keeps",
        "client beside the producers: p99",
        "share of their rate that the producers keep",
    ]
    assert [cells[1] for cells in shown.values()] == ["≥ 25.0%", "≤ 50.00 ms", "≥ 95.0%"]
    assert [cells[2] for cells in shown.values()] == verdicts
    assert [line[2] for line in section.lines() if "share" in line[0]] == ["1.0%", "50.0%"]
