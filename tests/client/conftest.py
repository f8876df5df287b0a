"""Clusters of one and two brokers on the event loop of the test, and lines for pytest's summary."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.testing import Cluster
from tests.client.brokers import ScriptedCluster, scripted_cluster

_REPORT_LINES = pytest.StashKey[list[str]]()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
async def two_brokers(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, brokers=2) as cluster:
        yield cluster


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(tmp_path) as scripted:
        yield scripted


@pytest.fixture
def report_lines(pytestconfig: pytest.Config) -> list[str]:
    """Lines that are printed in the summary of pytest."""
    return pytestconfig.stash.setdefault(_REPORT_LINES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(_REPORT_LINES, [])
    if lines:
        terminalreporter.section("client failover")
        terminalreporter.write("\n".join(lines) + "\n")
