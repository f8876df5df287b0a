"""Account commands of our mqadmin print the same as Java's on Apache's brokers with ACL enabled."""

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
from tests.compat.access_commands import TARGET, access_lists, accounts
from tests.compat.broker_commands import ADDRESS
from tests.compat.commands import Step
from tests.compat.guarded import ROOT, TOOLS, guarded_broker
from tests.compat.name_servers import kerolox_name_server
from tests.compat.our_mqadmin import ACCESS
from tests.compat.sides import Side
from tests.compat.table import Part, Table
from tests.compat.twins import WHOSE, Comparison, Reasons, Twins
from tests.compat.waiting import until_listed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

_FOUR, _FIVE = "4.9.8", "5.5.0"
_REASONS = Reasons(ACCESS)
_FIRST = {
    _FOUR: (("updateAclConfig", "-a", "rocketmq-first", "-s", "12345678"), ("deleteAclConfig", "-a", "rocketmq-first")),
    _FIVE: (("createUser", "-u", "first", "-p", "12345678"), ("deleteUser", "-u", "first")),
}
_KEYS = {"KEROLOX_ACCESS_KEY": ROOT["access_key"], "KEROLOX_SECRET_KEY": ROOT["secret_key"]}


@contextlib.contextmanager
def _comparing(version: str, table: Table, directory: Path) -> Iterator[tuple[Comparison, Twins]]:
    """Brokers with ACL enabled, one more as the target of copies, and tools with credentials."""
    require_java()
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(kerolox_name_server()) for _ in range(2)]
        brokers = [stack.enter_context(guarded_broker(version, namesrv.address)) for namesrv in started]
        for namesrv in started:
            asyncio.run(until_listed(namesrv.address))
        names = {}
        if version == _FIVE:
            elsewhere = stack.enter_context(kerolox_name_server())
            names[TARGET] = stack.enter_context(guarded_broker(version, elsewhere.address)).address
        sides = [
            Side(namesrv, broker, {ADDRESS: broker.address, **names})
            for namesrv, broker in zip(started, brokers, strict=True)
        ]
        tool = stack.enter_context(admin(version, {"tools.yml": TOOLS}))
        _warm(version, tool, sides)
        comparison = Comparison(Part.OUR_MQADMIN_ACCESS, version, tool, directory, table, _KEYS)
        yield comparison, Twins(f"{WHOSE[version]} with accounts", *sides)


def _warm(version: str, tool: Admin, sides: list[Side]) -> None:
    """Waits for a broker that has just started, which may exceed the timeout of Java's tool."""
    for side in sides:
        for arguments in _FIRST[version]:
            printed = our_mqadmin.run(
                *arguments, "-b", side.broker.address, namesrv=side.namesrv.address, environment=_KEYS
            )
            assert not printed.is_failure, printed
        tool.run("clusterList", namesrv=side.namesrv.address)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def of_four(table: Table, directory: Path) -> Iterator[tuple[Comparison, Twins]]:
    with _comparing(_FOUR, table, directory) as it:
        yield it


@pytest.fixture(scope="module")
def of_five(table: Table, directory: Path) -> Iterator[tuple[Comparison, Twins]]:
    with _comparing(_FIVE, table, directory) as it:
        yield it


@pytest.mark.parametrize("step", access_lists(), ids=lambda step: step.title)
def test_access_lists_of_4x(of_four: tuple[Comparison, Twins], step: Step) -> None:
    comparison, twins = of_four

    comparison.compare(twins, step, _REASONS)


def test_both_tools_leave_the_same_file_behind(of_four: tuple[Comparison, Twins]) -> None:
    _, twins = of_four
    texts = [(side.broker.home / "conf" / "plain_acl.yml").read_text() for side in (twins.java, twins.ours)]
    java, ours = (re.sub(r"\b\d{13}\b", "TIME", text) for text in texts)

    assert ours == java


@pytest.mark.parametrize("step", accounts(), ids=lambda step: step.title)
def test_users_and_policies_of_5x(of_five: tuple[Comparison, Twins], step: Step) -> None:
    comparison, twins = of_five

    comparison.compare(twins, step, _REASONS)
