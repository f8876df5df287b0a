"""Our mqadmin prints of a cluster what Java's prints of it, command by command, whoever's the cluster is."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.apache import SERVER_VERSIONS, servers
from tests.apache.admin import Admin, admin
from tests.apache.processes import temporary_home
from tests.apache.requirements import require_java
from tests.compat import our_mqadmin
from tests.compat.broker_commands import ENDLESS, EXPORT, attended, deserted
from tests.compat.brokers import kerolox_broker
from tests.compat.commands import Step, short_steps
from tests.compat.likeness import Likeness, likeness
from tests.compat.name_servers import kerolox_name_server
from tests.compat.our_mqadmin import both_fail, explanation, is_trace, ours_works
from tests.compat.sides import TOPIC, VERSION, Side, attend, make_topics
from tests.compat.stage import Stage, normalised
from tests.compat.table import Part, Table

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

_SETTLED_SECONDS = 5.0
_LINE_SECONDS = 60.0
_PROPERTIES = {"traceTopicEnable": "true", "diskMaxUsedSpaceRatio": "95"}
# Whose brokers: ours, and those of Apache that belong to these tools.
_KINDS = {"ours": "ours", "4.9.8": f"Apache {SERVER_VERSIONS['4.9.8']}", "5.5.0": "Apache 5.5.0"}


@dataclass(frozen=True, slots=True)
class Twins:
    """Two that are alike: commands that change something are given to one by Java's tool, to the other by ours.

    Commands that only look are given to the second by both.
    """

    kind: str
    java: Side
    ours: Side


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module", params=_KINDS)
def twins(request: pytest.FixtureRequest, directory: Path) -> Iterator[Twins]:
    require_java()
    kind = request.param
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as threads:
        started = []
        for _ in range(2):
            namesrv = stack.enter_context(kerolox_name_server())
            start = (
                kerolox_broker(namesrv.address, properties=_PROPERTIES)
                if kind == "ours"
                else servers.broker(kind, namesrv.address, properties=_PROPERTIES)
            )
            broker = stack.enter_context(start)
            asyncio.run(make_topics(broker.address))
            started.append((namesrv, broker, stack.enter_context(temporary_home())))
        sides = list(threads.map(lambda it: attend(it[0], it[1], it[2], stack, {EXPORT: str(directory)}), started))
        yield Twins(kind, *sides)


@pytest.fixture(scope="module")
def deserted_twins(twins: Twins) -> Twins:
    twins.java.client.terminate()
    twins.ours.client.terminate()
    return twins


@pytest.fixture(scope="module")
def tool() -> Iterator[Admin]:
    with admin(VERSION) as it:
        yield it


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
                java = stage.ask_reference(VERSION, *step.arguments)
                printed = our_mqadmin.run(*step.arguments, namesrv=server.address)
                ours = normalised(printed.text, server)
                found = likeness(java, ours)
                has_failed = is_trace(java) and printed.is_failure
                if has_failed or found is not Likeness.DIFFERENT or not step.reads or time.monotonic() >= deadline:
                    break
                time.sleep(0.2)
            row.result = both_fail(step.arguments, java, printed) if has_failed else str(found.value)
        if found is Likeness.DIFFERENT and not has_failed:
            differences += difflib.unified_diff(java.splitlines(), ours.splitlines(), step.title, "ours", lineterm="")
    assert not differences, "\n".join(differences)


@pytest.mark.slow
@pytest.mark.parametrize("step", attended(TOPIC), ids=lambda step: step.title)
def test_with_clients_both_tools_print_the_same(
    twins: Twins, tool: Admin, directory: Path, table: Table, step: Step
) -> None:
    _compare(twins, tool, directory, table, step)


@pytest.mark.slow
@pytest.mark.parametrize("step", ENDLESS, ids=lambda step: step.title)
def test_commands_that_never_end_print_the_same(twins: Twins, table: Table, step: Step) -> None:
    side = twins.ours
    with table.row(Part.OUR_MQADMIN, step.title, _KINDS[twins.kind]) as row, ThreadPoolExecutor() as threads:
        java = threads.submit(side.run_endless, step, ENDLESS[step])
        printed = our_mqadmin.run_until(ENDLESS[step], *side.filled(step), namesrv=side.namesrv.address)
        ours = side.first_round(printed, ENDLESS[step])
        row.result = _judged(step, java.result(), ours)


@pytest.mark.slow
@pytest.mark.parametrize("step", deserted(TOPIC), ids=lambda step: step.title)
def test_without_clients_both_tools_print_the_same(
    deserted_twins: Twins, tool: Admin, directory: Path, table: Table, step: Step
) -> None:
    _compare(deserted_twins, tool, directory, table, step)


def _compare(twins: Twins, tool: Admin, directory: Path, table: Table, step: Step) -> None:
    title = re.sub(r"{(\w+)}", lambda name: name[1].upper(), step.title)
    side = twins.ours if step.reads else twins.java
    deadline = time.monotonic() + (_SETTLED_SECONDS if step.reads else 0.0)
    with table.row(Part.OUR_MQADMIN, title, _KINDS[twins.kind]) as row:
        while True:
            java = _wait(side, tool, step, directory)
            printed = our_mqadmin.run(*twins.ours.filled(step), namesrv=twins.ours.namesrv.address)
            ours = twins.ours.with_files(normalised(printed.text, twins.ours.namesrv), directory)
            try:
                if is_trace(java):
                    works = ours_works(twins.kind, step.arguments, printed)
                    row.result = works or both_fail(step.arguments, java, printed)
                else:
                    row.result = _judged(step, java, ours)
                break
            except AssertionError:
                if time.monotonic() >= deadline:
                    raise


def _wait(side: Side, tool: Admin, step: Step, directory: Path) -> str:
    deadline = time.monotonic() + _LINE_SECONDS
    while True:
        printed = side.ask(tool, step, directory)
        if step.until is None or re.search(step.until, printed, re.MULTILINE):
            return printed
        assert time.monotonic() < deadline, f"no line like {step.until} in: {printed}"
        time.sleep(0.2)


def _judged(step: Step, java: str, ours: str) -> str:
    """What the table says of it; AssertionError if something differs that is not explained."""
    found = likeness(java, ours)
    difference = explanation(step.arguments)
    if difference is None:
        diff = "\n".join(difflib.unified_diff(java.splitlines(), ours.splitlines(), "Java", "ours", lineterm=""))
        assert found is not Likeness.DIFFERENT, diff
        return str(found.value)
    assert found is Likeness.DIFFERENT or difference.is_sometimes, f"no longer differs: {difference.reason}"
    left = difference.left(java, ours)
    assert not left, "\n".join(left)
    return difference.reason if found is Likeness.DIFFERENT else str(found.value)
