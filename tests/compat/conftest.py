"""The servers that compatibility tests share, and the table of results."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.apache.requirements import require_java
from tests.compat.deployment import Deployment, open_deployment
from tests.compat.table import Part, Table

_TABLE = pytest.StashKey[Table]()


@pytest.fixture(scope="session")
def table(pytestconfig: pytest.Config) -> Table:
    return pytestconfig.stash.setdefault(_TABLE, Table())


@pytest.fixture(scope="session")
def deployment() -> Iterator[Deployment]:
    require_java()
    with open_deployment() as deployment:
        yield deployment


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Add a row for each test with the marker `told`: the argument of the marker, and the test's name as the claim."""
    marker = pyfuncitem.get_closest_marker("told")
    if marker is None:
        return (yield)
    claim = pyfuncitem.originalname.removeprefix("test_").replace("_", " ")
    table = pyfuncitem.config.stash.setdefault(_TABLE, Table())
    with table.row(Part.SPARK, f"{marker.args[0]}: {claim}", str(pyfuncitem.callspec.params["version"])):
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    table = config.stash.get(_TABLE, None)
    if table is None or not (table.rows or table.cells or table.sparks):
        return
    terminalreporter.section("compatibility with Apache RocketMQ")
    for line in table.matrices():
        terminalreporter.write(line + "\n")
    terminalreporter.write("\n".join(table.lines()) + "\n")
    target = os.environ.get("KEROLOX_COMPAT_FOUND")
    if target:
        Path(target).write_text(json.dumps(table.dump()))
