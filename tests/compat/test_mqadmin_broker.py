"""Apache's mqadmin prints the same for Apache's broker and for ours."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.apache import SERVER_VERSIONS, VERSIONS, servers
from tests.apache.admin import Admin, admin, mqadmin
from tests.apache.processes import Process, temporary_home
from tests.compat.admin_target import TOPIC, VERSION, AdminTarget, make_topics, start_client
from tests.compat.broker_commands import (
    ENDLESS,
    EXPORT,
    steps_with_clients,
    steps_without_clients,
)
from tests.compat.broker_differences import NO_DIFFERENCE, compare_settings, explanation
from tests.compat.brokers import kerolox_broker
from tests.compat.commands import Step
from tests.compat.name_servers import kerolox_name_server
from tests.compat.similarity import Similarity, similarity
from tests.compat.table import Part, Row, Table

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

_SETTLED_SECONDS = 4.0
_LINE_SECONDS = 60.0
_PROPERTIES = {"traceTopicEnable": "true", "diskMaxUsedSpaceRatio": "95"}
# Settings that make ours behave like this version of Apache's broker.
_SETTINGS_LIKE = {"4.9.8": {"useServerSideResetOffset": "false"}, "5.5.0": {}}
_CONFIGURATION = "getBrokerConfig"


@dataclass(frozen=True, slots=True)
class Pair:
    """Apache's broker of one version and ours, both with NameServers of ours."""

    version: str
    apache: AdminTarget
    ours: AdminTarget


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory for files that commands write."""
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def pairs(directory: Path) -> Iterator[list[Pair]]:
    """Start all brokers. Their clients start at the same time, so that counts per minute are equal."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as threads:
        started: list[tuple[Process, Process, Path]] = []
        for version in VERSIONS:
            for is_ours in (False, True):
                namesrv = stack.enter_context(kerolox_name_server())
                start = (
                    kerolox_broker(namesrv.address, properties=_PROPERTIES | _SETTINGS_LIKE[version])
                    if is_ours
                    else servers.broker(version, namesrv.address, properties=_PROPERTIES)
                )
                broker = stack.enter_context(start)
                asyncio.run(make_topics(broker.address, namesrv.address))
                started.append((namesrv, broker, stack.enter_context(temporary_home())))
        names = {EXPORT: str(directory)}
        clients = [threads.submit(start_client, *parts, stack, names) for parts in started]
        targets = [client.result() for client in clients]
        yield [Pair(version, targets[2 * at], targets[2 * at + 1]) for at, version in enumerate(VERSIONS)]


@pytest.fixture(scope="module")
def pairs_without_clients(pairs: list[Pair]) -> list[Pair]:
    for pair in pairs:
        pair.apache.stop_client()
        pair.ours.stop_client()
    return pairs


@pytest.fixture(scope="module")
def tool() -> Iterator[Admin]:
    with admin(VERSION) as tool:
        yield tool


def test_the_script_has_every_command() -> None:
    printed = mqadmin(VERSION).stdout

    commands = set(re.findall(r"^   (\w+) ", printed, re.MULTILINE))
    steps = (*steps_with_clients(TOPIC), *steps_without_clients(TOPIC), *ENDLESS)
    assert len(commands) > 50
    assert commands == {step.arguments[0] for step in steps}


@pytest.mark.parametrize("step", steps_with_clients(TOPIC), ids=lambda step: step.title)
def test_commands_print_the_same_while_clients_are_connected(
    pairs: list[Pair], tool: Admin, directory: Path, table: Table, step: Step
) -> None:
    _compare(pairs, tool, directory, table, step)


@pytest.mark.parametrize("step", ENDLESS, ids=lambda step: step.title)
def test_commands_that_never_end_print_the_same(pairs: list[Pair], table: Table, step: Step) -> None:
    with ThreadPoolExecutor() as threads:
        targets = [target for pair in pairs for target in (pair.apache, pair.ours)]
        printed = list(threads.map(lambda target: target.run_endless(step, ENDLESS[step]), targets))
    for pair, apache, ours in zip(pairs, printed[::2], printed[1::2], strict=True):
        with _row(table, pair, step) as row:
            row.result = _verdict(pair, step, apache, ours)


@pytest.mark.parametrize("step", steps_without_clients(TOPIC), ids=lambda step: step.title)
def test_commands_print_the_same_after_clients_have_disconnected(
    pairs_without_clients: list[Pair], tool: Admin, directory: Path, table: Table, step: Step
) -> None:
    _compare(pairs_without_clients, tool, directory, table, step)


def _compare(pairs: list[Pair], tool: Admin, directory: Path, table: Table, step: Step) -> None:
    """Run all commands before comparing any, so that one difference does not cause another."""
    printed = [(_wait(pair.apache, tool, step, directory), _wait(pair.ours, tool, step, directory)) for pair in pairs]
    failures = []
    for pair, (apache, ours) in zip(pairs, printed, strict=True):
        deadline = time.monotonic() + (_SETTLED_SECONDS if step.reads else 0.0)
        try:
            with _row(table, pair, step) as row:
                while True:
                    try:
                        row.result = _verdict(pair, step, apache, ours)
                        break
                    except AssertionError:
                        if time.monotonic() >= deadline:
                            raise
                    apache, ours = (target.output(tool, step, directory) for target in (pair.apache, pair.ours))
        except AssertionError as error:
            failures.append(f"broker {SERVER_VERSIONS[pair.version]}: {error}")
    assert not failures, "\n".join(failures)


def _row(table: Table, pair: Pair, step: Step) -> contextlib.AbstractContextManager[Row]:
    version = VERSION if pair.version == VERSION else f"{VERSION}, broker {pair.version}"
    return table.row(Part.MQADMIN, re.sub(r"{(\w+)}", lambda name: name[1].upper(), step.title), version)


def _wait(target: AdminTarget, tool: Admin, step: Step, directory: Path) -> str:
    deadline = time.monotonic() + _LINE_SECONDS
    while True:
        printed = target.output(tool, step, directory)
        if step.until is None or re.search(step.until, printed, re.MULTILINE):
            return printed
        assert time.monotonic() < deadline, f"no line like {step.until} in: {printed}"
        time.sleep(0.2)


def _verdict(pair: Pair, step: Step, apache: str, ours: str) -> str:
    """Return the result for the table. Raises AssertionError for an unexplained difference."""
    if step.arguments[0] == _CONFIGURATION:
        return compare_settings(pair.version, apache, ours)
    difference = explanation(pair.version, step.arguments)
    found = similarity(apache, ours)
    if difference is None:
        assert found is not Similarity.DIFFERENT, "\n".join(NO_DIFFERENCE.unexplained_lines(apache, ours))
        return str(found.value)
    assert found is Similarity.DIFFERENT or difference.depends_on_timing, f"no longer differs: {difference.reason}"
    unexplained = difference.unexplained_lines(apache, ours)
    assert not unexplained, "\n".join(unexplained)
    return difference.reason if found is Similarity.DIFFERENT else str(found.value)
