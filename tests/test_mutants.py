"""The mutation script changes comparisons one at a time, and runs the tests against the change."""

import pytest

from tests.mutants import EQUIVALENT, SOURCE, TARGETS, mutants

TEXT = """def check(a, b, c):
    assert a < b
    if 0 <= a < b:
        return a is not None
    return b in c
"""


def test_each_comparison_but_those_of_assertions_is_changed_once() -> None:
    found = [(mutant.line, mutant.after.strip()) for mutant in mutants("x.py", TEXT)]

    assert found == [
        (3, "if 0 < a < b:"),
        (3, "if 0 <= a <= b:"),
        (5, "return b not in c"),
        (4, "return a is None"),
    ]


def test_only_one_line_of_a_mutant_differs() -> None:
    for mutant in mutants("x.py", TEXT):
        differing = [
            (before, after)
            for before, after in zip(TEXT.splitlines(), mutant.text.splitlines(), strict=True)
            if before != after
        ]
        assert differing == [(mutant.before.rstrip(), mutant.after.rstrip())]


@pytest.mark.parametrize("module", TARGETS)
def test_targets_and_their_tests_exist(module: str) -> None:
    assert (SOURCE / module).exists()
    assert [path for path in TARGETS[module] if not (SOURCE.parents[1] / path).exists()] == []


def test_every_explanation_is_about_an_existing_mutant() -> None:
    found = {
        (mutant.module, mutant.after.strip())
        for module in TARGETS
        for mutant in mutants(module, (SOURCE / module).read_text())
    }

    assert EQUIVALENT.keys() - found == set()
