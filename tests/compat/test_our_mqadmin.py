"""Our mqadmin prints the same as Java's, command by command, for Apache's clusters and ours."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apache import SERVER_VERSIONS
from tests.apache.admin import admin
from tests.compat import our_mqadmin
from tests.compat.broker_commands import ENDLESS, EXPORT, attended, deserted
from tests.compat.commands import Step, short_steps
from tests.compat.likeness import Likeness, likeness
from tests.compat.our_mqadmin import EXPLAINED, ONLY_OURS, OTHER_CODES, both_fail, is_trace
from tests.compat.sides import TOPIC, VERSION
from tests.compat.stage import Stage, normalised
from tests.compat.table import Part, Table
from tests.compat.twins import WHOSE, Comparison, Reasons, Twins, keep, open_twins

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

_SETTLED_SECONDS = 5.0
REASONS = {whose: Reasons(EXPLAINED, OTHER_CODES, ONLY_OURS.get(kind, {})) for kind, whose in WHOSE.items()}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module", params=WHOSE)
def twins(request: pytest.FixtureRequest, directory: Path) -> Iterator[Twins]:
    with open_twins(request.param, {EXPORT: str(directory)}) as it:
        yield it


@pytest.fixture(scope="module")
def deserted_twins(twins: Twins) -> Twins:
    twins.java.leave()
    twins.ours.leave()
    return twins


@pytest.fixture(scope="module")
def comparison(directory: Path, table: Table) -> Iterator[Comparison]:
    with admin(VERSION) as tool:
        yield Comparison(Part.OUR_MQADMIN, VERSION, tool, directory, table)


def test_a_handful_of_commands_print_the_same(stage: Stage, table: Table) -> None:
    """Of Apache's brokers under Apache's NameServer; `clusterList` of 4.9.8 fails at those of 5.x."""
    server = stage.references[VERSION]
    differences: list[str] = []
    for step in short_steps("handful_ours"):
        if step.arguments[0] == "clusterList":
            continue
        with table.row(Part.OUR_MQADMIN, step.title, f"Apache {SERVER_VERSIONS[VERSION]}") as row:
            deadline = time.monotonic() + _SETTLED_SECONDS
            while True:
                completed = stage.admins[VERSION].run(*step.arguments, namesrv=server.address)
                printed = our_mqadmin.run(*step.arguments, namesrv=server.address)
                java, ours = (normalised(it, server) for it in (completed.stdout + completed.stderr, printed.text))
                found = likeness(java, ours)
                has_failed = is_trace(java) and printed.is_failure
                if has_failed or found is not Likeness.DIFFERENT or not step.reads or time.monotonic() >= deadline:
                    break
                time.sleep(0.2)
            whose = f"Apache {SERVER_VERSIONS[VERSION]} with its NameServer"
            keep(VERSION, whose, step, completed.stdout + completed.stderr, printed.text)
            row.result = both_fail(step.arguments, java, printed, {}) if has_failed else str(found.value)
        if found is Likeness.DIFFERENT and not has_failed:
            differences += difflib.unified_diff(java.splitlines(), ours.splitlines(), step.title, "ours", lineterm="")
    assert not differences, "\n".join(differences)


@pytest.mark.slow
@pytest.mark.parametrize("step", attended(TOPIC), ids=lambda step: step.title)
def test_with_clients_both_tools_print_the_same(twins: Twins, comparison: Comparison, step: Step) -> None:
    comparison.compare(twins, step, REASONS[twins.whose])


@pytest.mark.slow
@pytest.mark.parametrize("step", ENDLESS, ids=lambda step: step.title)
def test_commands_that_never_end_print_the_same(twins: Twins, comparison: Comparison, step: Step) -> None:
    comparison.compare_endless(twins, step, ENDLESS[step], REASONS[twins.whose])


@pytest.mark.slow
@pytest.mark.parametrize("step", deserted(TOPIC), ids=lambda step: step.title)
def test_without_clients_both_tools_print_the_same(deserted_twins: Twins, comparison: Comparison, step: Step) -> None:
    comparison.compare(deserted_twins, step, REASONS[deserted_twins.whose])
