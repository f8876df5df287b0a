"""Comparisons: warm-up, rounds and turns."""

from __future__ import annotations

import pytest
from rich.progress import Progress

from bench.frames import Ring
from bench.generator import Generator, Load, Result
from bench.messages import sends
from bench.run import GENERATOR_ALONE, Profile, Run, Target

TARGETS = {"Kerolox": Target(1, 10), "Apache 4.9.7": Target(2, 20), GENERATOR_ALONE: Target(3, 30)}
PROFILE = Profile(4, 64)


class RecordingGenerator(Generator):
    """Sends nothing, and records the loads."""

    def __init__(self) -> None:
        self.loads: list[Load] = []

    def run(self, load: Load) -> Result:
        self.loads.append(load)
        return Result(1, 1.0, 1.0, 1.0, 1.0, 1.0, [])


@pytest.fixture
def generator() -> RecordingGenerator:
    return RecordingGenerator()


@pytest.fixture
def run(generator: RecordingGenerator) -> Run:
    return Run(generator, Progress(disable=True), rounds=2, seconds=0.5, warm_up_rounds_max=1)


def rings() -> dict[int, Ring]:
    return {number: sends(f"round{number}", 16, count=1) for number in (-1, 0, 1)}


def test_requests_that_are_a_function_differ_by_round_but_not_by_target(
    run: Run, generator: RecordingGenerator
) -> None:
    by_round = rings()

    results = run.compare("sends", TARGETS, by_round.__getitem__, PROFILE)

    assert {name: len(rounds) for name, rounds in results.items()} == dict.fromkeys(TARGETS, 2)
    expected = [by_round[-1]] * 2 + [by_round[0]] * 3 + [by_round[1]] * 3
    assert [load.ring for load in generator.loads] == expected


def test_a_ring_is_the_same_in_warm_up_and_every_round(run: Run, generator: RecordingGenerator) -> None:
    ring = rings()[0]

    run.compare("sends", TARGETS, ring, PROFILE)

    assert [load.ring for load in generator.loads] == [ring] * 8


def test_each_round_starts_with_another_target(run: Run, generator: RecordingGenerator) -> None:
    run.compare("sends", TARGETS, rings()[0], PROFILE)

    assert [load.port for load in generator.loads] == [1, 2, 1, 2, 3, 2, 3, 1]


def test_only_the_first_of_single_rounds_is_warmed_up(run: Run, generator: RecordingGenerator) -> None:
    by_round = rings()

    for number in range(2):
        run.compare("sends", TARGETS, by_round.__getitem__, PROFILE, range(number, number + 1))

    assert [load.ring for load in generator.loads] == [by_round[-1]] * 2 + [by_round[0]] * 3 + [by_round[1]] * 3
