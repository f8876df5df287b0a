"""Random runs of the model hold every promise, and find every fault that is built in on purpose."""

import pytest

from tests.controller.model import Fault, Model, first_violation

RUNS = 10_000
RUNS_MAX = 10_000


def test_no_run_loses_an_acknowledged_entry_or_breaks_a_rule() -> None:
    assert first_violation(None, RUNS) is None, "Model(seed).run() repeats it"


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_a_fault_is_found(fault: Fault) -> None:
    assert first_violation(fault, RUNS_MAX) is not None, fault.value


# Faults that break a rule of elections before they lose anything.
RULE_BREAKERS = (
    Fault.UNCLEAN_ELECTION,
    Fault.OUTSIDE_THE_SET,
    Fault.EPOCH_NOT_INCREASED,
    Fault.COMPARE_AND_SWAP_IGNORED,
    Fault.ANSWERED_BEFORE_STORED,
)


@pytest.mark.parametrize("fault", RULE_BREAKERS, ids=lambda fault: fault.name)
def test_without_its_rule_acknowledged_entries_are_lost(fault: Fault) -> None:
    found = first_violation(fault, RUNS_MAX, checks_rules=False)

    assert found is not None, fault.value
    assert "acknowledged" in found[1]


def test_runs_are_eventful() -> None:
    """Without elections, changes of the set and acknowledged entries a run would prove nothing."""
    models = [Model(seed) for seed in range(200)]
    for model in models:
        model.run()

    assert sum(len(model.acknowledged) for model in models) > 200
    assert sum(len(model.masters) for model in models) > 400
    assert sum(model.stored.sync_state_set_epoch for model in models if model.stored is not None) > 600


def test_a_run_can_be_repeated() -> None:
    first, again = Model(7), Model(7)
    first.run()
    again.run()

    assert (first.acknowledged, first.stored) == (again.acknowledged, again.stored)
