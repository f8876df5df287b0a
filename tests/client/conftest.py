"""A cluster of one broker, and of two, on the event loop of the test; and the end of the output."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.testing import Cluster
from tests.client.brokers import Stage, staged
from tests.client.shown import Shown

_SHOWN = pytest.StashKey[Shown]()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
async def two_brokers(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, brokers=2) as cluster:
        yield cluster


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        yield stage


@pytest.fixture
def shown(pytestconfig: pytest.Config) -> Shown:
    """Lines to be shown at the end."""
    return pytestconfig.stash.setdefault(_SHOWN, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(_SHOWN, [])
    if lines:
        terminalreporter.section("what clients went through")
        terminalreporter.write("\n".join(lines) + "\n")
