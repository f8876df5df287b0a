"""Account commands of our mqadmin print the same as Java's, on Apache's brokers with ACL enabled."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apache.admin import Admin, admin
from tests.apache.requirements import require_java
from tests.compat import our_mqadmin
from tests.compat.access_commands import TARGET, acl_4x_steps, acl_5x_steps
from tests.compat.acl_brokers import ROOT, TOOLS, acl_broker
from tests.compat.admin_target import AdminTarget
from tests.compat.broker_commands import ADDRESS
from tests.compat.commands import Step
from tests.compat.name_servers import kerolox_name_server
from tests.compat.our_mqadmin import ACL_DIFFERENCES
from tests.compat.table import Part, Table
from tests.compat.tool_comparison import BROKER_KINDS, ClusterPair, Comparison, Reasons
from tests.compat.waiting import until_listed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

_V4, _V5 = "4.9.8", "5.5.0"
_REASONS = Reasons(ACL_DIFFERENCES)
_WARM_UP = {
    _V4: (("updateAclConfig", "-a", "rocketmq-first", "-s", "12345678"), ("deleteAclConfig", "-a", "rocketmq-first")),
    _V5: (("createUser", "-u", "first", "-p", "12345678"), ("deleteUser", "-u", "first")),
}
_KEYS = {"KEROLOX_ACCESS_KEY": ROOT["access_key"], "KEROLOX_SECRET_KEY": ROOT["secret_key"]}


@contextlib.contextmanager
def _comparing(version: str, table: Table, directory: Path) -> Iterator[tuple[Comparison, ClusterPair]]:
    """Start two clusters with ACL enabled, a third broker as target of copy commands, and tools with credentials."""
    require_java()
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(kerolox_name_server()) for _ in range(2)]
        brokers = [stack.enter_context(acl_broker(version, namesrv.address)) for namesrv in started]
        for namesrv in started:
            asyncio.run(until_listed(namesrv.address))
        names = {}
        if version == _V5:
            other_namesrv = stack.enter_context(kerolox_name_server())
            names[TARGET] = stack.enter_context(acl_broker(version, other_namesrv.address)).address
        targets = [
            AdminTarget(namesrv, broker, {ADDRESS: broker.address, **names})
            for namesrv, broker in zip(started, brokers, strict=True)
        ]
        tool = stack.enter_context(admin(version, {"tools.yml": TOOLS}))
        _warm(version, tool, targets)
        comparison = Comparison(Part.OUR_MQADMIN_ACCESS, version, tool, directory, table, _KEYS)
        yield comparison, ClusterPair(f"{BROKER_KINDS[version]} with accounts", *targets)


def _warm(version: str, tool: Admin, targets: list[AdminTarget]) -> None:
    """Run commands with our tool first: the first requests to a new broker may exceed the timeout of Java's tool."""
    for target in targets:
        for arguments in _WARM_UP[version]:
            printed = our_mqadmin.run(
                *arguments, "-b", target.broker.address, namesrv=target.namesrv.address, environment=_KEYS
            )
            assert not printed.is_failure, printed
        tool.run("clusterList", namesrv=target.namesrv.address)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def clusters_4x(table: Table, directory: Path) -> Iterator[tuple[Comparison, ClusterPair]]:
    with _comparing(_V4, table, directory) as comparison:
        yield comparison


@pytest.fixture(scope="module")
def clusters_5x(table: Table, directory: Path) -> Iterator[tuple[Comparison, ClusterPair]]:
    with _comparing(_V5, table, directory) as comparison:
        yield comparison


@pytest.mark.parametrize("step", acl_4x_steps(), ids=lambda step: step.title)
def test_acl_commands_of_4x_print_the_same(clusters_4x: tuple[Comparison, ClusterPair], step: Step) -> None:
    comparison, clusters = clusters_4x

    comparison.compare(clusters, step, _REASONS)


def test_both_tools_leave_the_same_acl_file(clusters_4x: tuple[Comparison, ClusterPair]) -> None:
    _, clusters = clusters_4x
    texts = [(target.broker.home / "conf" / "plain_acl.yml").read_text() for target in (clusters.java, clusters.ours)]
    java, ours = (re.sub(r"\b\d{13}\b", "TIME", text) for text in texts)

    assert ours == java


@pytest.mark.parametrize("step", acl_5x_steps(), ids=lambda step: step.title)
def test_user_and_policy_commands_of_5x_print_the_same(clusters_5x: tuple[Comparison, ClusterPair], step: Step) -> None:
    comparison, clusters = clusters_5x

    comparison.compare(clusters, step, _REASONS)
