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
from tests.compat.admin_target import TOPIC, VERSION
from tests.compat.broker_commands import ENDLESS, EXPORT, steps_with_clients, steps_without_clients
from tests.compat.commands import Step, short_steps
from tests.compat.deployment import Deployment, normalised
from tests.compat.our_mqadmin import DIFFERENCES, ONLY_JAVA_FAILS, OTHER_REASONS, both_fail, has_stack_trace
from tests.compat.similarity import Similarity, similarity
from tests.compat.table import Part, Table
from tests.compat.tool_comparison import BROKER_KINDS, ClusterPair, Comparison, Reasons, keep, open_cluster_pair

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

_SETTLED_SECONDS = 5.0
REASONS = {
    brokers: Reasons(DIFFERENCES, OTHER_REASONS, ONLY_JAVA_FAILS.get(kind, {}))
    for kind, brokers in BROKER_KINDS.items()
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module", params=BROKER_KINDS)
def clusters(request: pytest.FixtureRequest, directory: Path) -> Iterator[ClusterPair]:
    with open_cluster_pair(request.param, {EXPORT: str(directory)}) as pair:
        yield pair


@pytest.fixture(scope="module")
def clusters_without_clients(clusters: ClusterPair) -> ClusterPair:
    clusters.java.stop_client()
    clusters.ours.stop_client()
    return clusters


@pytest.fixture(scope="module")
def comparison(directory: Path, table: Table) -> Iterator[Comparison]:
    with admin(VERSION) as tool:
        yield Comparison(Part.OUR_MQADMIN, VERSION, tool, directory, table)


def test_basic_commands_print_the_same(deployment: Deployment, table: Table) -> None:
    """On Apache's brokers with Apache's NameServer; `clusterList` of 4.9.8 fails with those of 5.x."""
    server = deployment.references[VERSION]
    differences: list[str] = []
    for step in short_steps("handful_ours"):
        if step.arguments[0] == "clusterList":
            continue
        with table.row(Part.OUR_MQADMIN, step.title, f"Apache {SERVER_VERSIONS[VERSION]}") as row:
            deadline = time.monotonic() + _SETTLED_SECONDS
            while True:
                completed = deployment.admins[VERSION].run(*step.arguments, namesrv=server.address)
                printed = our_mqadmin.run(*step.arguments, namesrv=server.address)
                java, ours = (
                    normalised(output, server) for output in (completed.stdout + completed.stderr, printed.text)
                )
                found = similarity(java, ours)
                has_failed = has_stack_trace(java) and printed.is_failure
                if has_failed or found is not Similarity.DIFFERENT or not step.reads or time.monotonic() >= deadline:
                    break
                time.sleep(0.2)
            brokers = f"Apache {SERVER_VERSIONS[VERSION]} with its NameServer"
            keep(VERSION, brokers, step, completed.stdout + completed.stderr, printed.text)
            row.result = both_fail(step.arguments, java, printed, {}) if has_failed else str(found.value)
        if found is Similarity.DIFFERENT and not has_failed:
            differences += difflib.unified_diff(java.splitlines(), ours.splitlines(), step.title, "ours", lineterm="")
    assert not differences, "\n".join(differences)


@pytest.mark.slow
@pytest.mark.parametrize("step", steps_with_clients(TOPIC), ids=lambda step: step.title)
def test_both_tools_print_the_same_while_clients_are_connected(
    clusters: ClusterPair, comparison: Comparison, step: Step
) -> None:
    comparison.compare(clusters, step, REASONS[clusters.brokers])


@pytest.mark.slow
@pytest.mark.parametrize("step", ENDLESS, ids=lambda step: step.title)
def test_commands_that_never_end_print_the_same(clusters: ClusterPair, comparison: Comparison, step: Step) -> None:
    comparison.compare_endless(clusters, step, ENDLESS[step], REASONS[clusters.brokers])


@pytest.mark.slow
@pytest.mark.parametrize("step", steps_without_clients(TOPIC), ids=lambda step: step.title)
def test_both_tools_print_the_same_after_clients_have_disconnected(
    clusters_without_clients: ClusterPair, comparison: Comparison, step: Step
) -> None:
    comparison.compare(clusters_without_clients, step, REASONS[clusters_without_clients.brokers])
