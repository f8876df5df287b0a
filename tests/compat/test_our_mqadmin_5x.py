"""Commands and options introduced with 5.x print the same in our mqadmin and in Java's of 5.5.0."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.cli.admin.command_table import ALL_COMMANDS
from tests.apache import servers
from tests.apache.admin import admin
from tests.compat.admin_target import TOPIC, AdminTarget
from tests.compat.broker_commands import ADDRESS
from tests.compat.commands import Step
from tests.compat.commands_5x import SLAVE, VERSION, replication_steps, steps_5x, write_list_files
from tests.compat.name_servers import kerolox_name_server
from tests.compat.our_mqadmin import DIFFERENCES_5X
from tests.compat.table import Part, Table
from tests.compat.tool_comparison import BROKER_KINDS, ClusterPair, Comparison, Reasons, open_cluster_pair

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module", params=["ours", "5.5.0"])
def clusters(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPair]:
    with open_cluster_pair(request.param, write_list_files(tmp_path_factory.mktemp("write_list_files"))) as pair:
        yield pair


@pytest.fixture(scope="module")
def comparison(directory: Path, table: Table) -> Iterator[Comparison]:
    with admin(VERSION) as tool:
        yield Comparison(Part.OUR_MQADMIN_5X, VERSION, tool, directory, table)


def test_the_script_has_every_command_and_flag_of_5x() -> None:
    steps = steps_5x(TOPIC)
    commands = {command.name for command in ALL_COMMANDS if command.since is not None}
    flags = {
        (command.name, f"-{flag.short}") for command in ALL_COMMANDS for flag in command.flags if flag.since is not None
    }

    assert commands - {step.arguments[0] for step in steps} == set()
    assert flags - {(step.arguments[0], word) for step in steps for word in step.arguments} == set()


@pytest.mark.parametrize("step", steps_5x(TOPIC), ids=lambda step: step.title)
def test_commands_of_5x_print_the_same(clusters: ClusterPair, comparison: Comparison, step: Step) -> None:
    comparison.compare(clusters, step, Reasons(DIFFERENCES_5X))


@pytest.fixture(scope="module")
def replicated() -> Iterator[ClusterPair]:
    """A broker of Apache's with a slave; ours has no replication."""
    with contextlib.ExitStack() as stack:
        namesrv = stack.enter_context(kerolox_name_server())
        master = stack.enter_context(servers.broker(VERSION, namesrv.address))
        role = {"brokerId": "1", "brokerRole": "SLAVE"}
        slave = stack.enter_context(servers.broker(VERSION, namesrv.address, properties=role))
        target = AdminTarget(namesrv, master, {ADDRESS: master.address, SLAVE: slave.address})
        yield ClusterPair(f"{BROKER_KINDS[VERSION]} with a slave", target, target)


@pytest.mark.parametrize("step", replication_steps(), ids=lambda step: step.title)
def test_replication_commands_print_the_same(replicated: ClusterPair, comparison: Comparison, step: Step) -> None:
    comparison.compare(replicated, step, Reasons())
