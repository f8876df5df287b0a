"""Commands and options introduced with 5.x print the same in our mqadmin and in Java's of 5.5.0."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.cli.admin.command_table import ALL_COMMANDS
from tests.apache import servers
from tests.apache.admin import admin
from tests.compat.broker_commands import ADDRESS
from tests.compat.commands import Step
from tests.compat.later_commands import SLAVE, VERSION, copied, later, lists
from tests.compat.name_servers import kerolox_name_server
from tests.compat.our_mqadmin import LATER
from tests.compat.sides import TOPIC, Side
from tests.compat.table import Part, Table
from tests.compat.twins import WHOSE, Comparison, Reasons, Twins, open_twins

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module", params=["ours", "5.5.0"])
def twins(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with open_twins(request.param, lists(tmp_path_factory.mktemp("lists"))) as it:
        yield it


@pytest.fixture(scope="module")
def comparison(directory: Path, table: Table) -> Iterator[Comparison]:
    with admin(VERSION) as tool:
        yield Comparison(Part.OUR_MQADMIN_LATER, VERSION, tool, directory, table)


def test_every_command_and_flag_of_5x_is_in_the_script() -> None:
    steps = later(TOPIC)
    commands = {command.name for command in ALL_COMMANDS if command.since is not None}
    flags = {
        (command.name, f"-{flag.short}") for command in ALL_COMMANDS for flag in command.flags if flag.since is not None
    }

    assert commands - {step.arguments[0] for step in steps} == set()
    assert flags - {(step.arguments[0], word) for step in steps for word in step.arguments} == set()


@pytest.mark.parametrize("step", later(TOPIC), ids=lambda step: step.title)
def test_commands_of_5x_print_the_same(twins: Twins, comparison: Comparison, step: Step) -> None:
    comparison.compare(twins, step, Reasons(LATER))


@pytest.fixture(scope="module")
def copying() -> Iterator[Twins]:
    """A broker of Apache's with a slave; what ours copies is nothing."""
    with contextlib.ExitStack() as stack:
        namesrv = stack.enter_context(kerolox_name_server())
        master = stack.enter_context(servers.broker(VERSION, namesrv.address))
        role = {"brokerId": "1", "brokerRole": "SLAVE"}
        slave = stack.enter_context(servers.broker(VERSION, namesrv.address, properties=role))
        side = Side(namesrv, master, {ADDRESS: master.address, SLAVE: slave.address})
        yield Twins(f"{WHOSE[VERSION]} with a slave", side, side)


@pytest.mark.parametrize("step", copied(), ids=lambda step: step.title)
def test_of_slaves_the_same_is_printed(copying: Twins, comparison: Comparison, step: Step) -> None:
    comparison.compare(copying, step, Reasons())
