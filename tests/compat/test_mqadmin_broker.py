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
from tests.apache.processes import temporary_home
from tests.compat.broker_commands import (
    ENDLESS,
    EXPORT,
    attended,
    deserted,
)
from tests.compat.brokers import kerolox_broker
from tests.compat.commands import Step
from tests.compat.explained import NONE, explanation, settings
from tests.compat.likeness import Likeness, likeness
from tests.compat.name_servers import kerolox_name_server
from tests.compat.sides import TOPIC, VERSION, Side, attend, make_topics
from tests.compat.table import Part, Row, Table

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

_SETTLED_SECONDS = 4.0
_LINE_SECONDS = 60.0
_PROPERTIES = {"traceTopicEnable": "true", "diskMaxUsedSpaceRatio": "95"}
# Settings that make ours behave like each version of Apache.
_ALIKE = {"4.9.8": {"useServerSideResetOffset": "false"}, "5.5.0": {}}
_CONFIGURATION = "getBrokerConfig"


@dataclass(frozen=True, slots=True)
class Pair:
    """Apache's broker of a version and ours, both under NameServers of ours."""

    version: str
    apache: Side
    ours: Side


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory for files that commands write."""
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def pairs(directory: Path) -> Iterator[list[Pair]]:
    """Starts both sides. Their clients start together, so that counts per minute are equal."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as threads:
        started = []
        for version in VERSIONS:
            for is_ours in (False, True):
                namesrv = stack.enter_context(kerolox_name_server())
                start = (
                    kerolox_broker(namesrv.address, properties=_PROPERTIES | _ALIKE[version])
                    if is_ours
                    else servers.broker(version, namesrv.address, properties=_PROPERTIES)
                )
                broker = stack.enter_context(start)
                asyncio.run(make_topics(broker.address))
                started.append((namesrv, broker, stack.enter_context(temporary_home())))
        sides = list(threads.map(lambda it: attend(it[0], it[1], it[2], stack, {EXPORT: str(directory)}), started))
        yield [Pair(version, sides[2 * at], sides[2 * at + 1]) for at, version in enumerate(VERSIONS)]


@pytest.fixture(scope="module")
def deserted_pairs(pairs: list[Pair]) -> list[Pair]:
    for pair in pairs:
        pair.apache.leave()
        pair.ours.leave()
    return pairs


@pytest.fixture(scope="module")
def tool() -> Iterator[Admin]:
    with admin(VERSION) as it:
        yield it


def test_every_command_is_in_the_script() -> None:
    printed = mqadmin(VERSION).stdout

    commands = set(re.findall(r"^   (\w+) ", printed, re.MULTILINE))
    steps = (*attended(TOPIC), *deserted(TOPIC), *ENDLESS)
    assert len(commands) > 50
    assert commands == {step.arguments[0] for step in steps}


@pytest.mark.parametrize("step", attended(TOPIC), ids=lambda step: step.title)
def test_with_clients_a_command_prints_the_same(
    pairs: list[Pair], tool: Admin, directory: Path, table: Table, step: Step
) -> None:
    _compare(pairs, tool, directory, table, step)


@pytest.mark.parametrize("step", ENDLESS, ids=lambda step: step.title)
def test_a_command_that_never_ends_prints_the_same(pairs: list[Pair], table: Table, step: Step) -> None:
    with ThreadPoolExecutor() as threads:
        sides = [side for pair in pairs for side in (pair.apache, pair.ours)]
        printed = list(threads.map(lambda side: side.run_endless(step, ENDLESS[step]), sides))
    for pair, apache, ours in zip(pairs, printed[::2], printed[1::2], strict=True):
        with _row(table, pair, step) as row:
            row.result = _judged(pair, step, apache, ours)


@pytest.mark.parametrize("step", deserted(TOPIC), ids=lambda step: step.title)
def test_without_clients_a_command_prints_the_same(
    deserted_pairs: list[Pair], tool: Admin, directory: Path, table: Table, step: Step
) -> None:
    _compare(deserted_pairs, tool, directory, table, step)


def _compare(pairs: list[Pair], tool: Admin, directory: Path, table: Table, step: Step) -> None:
    """Runs all commands before comparing any, so that one difference does not cause another."""
    printed = [(_wait(pair.apache, tool, step, directory), _wait(pair.ours, tool, step, directory)) for pair in pairs]
    failures = []
    for pair, (apache, ours) in zip(pairs, printed, strict=True):
        deadline = time.monotonic() + (_SETTLED_SECONDS if step.reads else 0.0)
        try:
            with _row(table, pair, step) as row:
                while True:
                    try:
                        row.result = _judged(pair, step, apache, ours)
                        break
                    except AssertionError:
                        if time.monotonic() >= deadline:
                            raise
                    apache, ours = (side.ask(tool, step, directory) for side in (pair.apache, pair.ours))
        except AssertionError as error:
            failures.append(f"at the broker of {SERVER_VERSIONS[pair.version]}: {error}")
    assert not failures, "\n".join(failures)


def _row(table: Table, pair: Pair, step: Step) -> contextlib.AbstractContextManager[Row]:
    version = VERSION if pair.version == VERSION else f"{VERSION}, broker {pair.version}"
    return table.row(Part.MQADMIN, re.sub(r"{(\w+)}", lambda name: name[1].upper(), step.title), version)


def _wait(side: Side, tool: Admin, step: Step, directory: Path) -> str:
    deadline = time.monotonic() + _LINE_SECONDS
    while True:
        printed = side.ask(tool, step, directory)
        if step.until is None or re.search(step.until, printed, re.MULTILINE):
            return printed
        assert time.monotonic() < deadline, f"no line like {step.until} in: {printed}"
        time.sleep(0.2)


def _judged(pair: Pair, step: Step, apache: str, ours: str) -> str:
    """Returns the entry of the table. Raises AssertionError for an unexplained difference."""
    if step.arguments[0] == _CONFIGURATION:
        return settings(pair.version, apache, ours)
    difference = explanation(pair.version, step.arguments)
    found = likeness(apache, ours)
    if difference is None:
        assert found is not Likeness.DIFFERENT, "\n".join(NONE.left(apache, ours))
        return str(found.value)
    assert found is Likeness.DIFFERENT or difference.is_sometimes, f"no longer differs: {difference.reason}"
    left = difference.left(apache, ours)
    assert not left, "\n".join(left)
    return difference.reason if found is Likeness.DIFFERENT else str(found.value)
