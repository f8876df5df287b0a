"""A cluster of one broker, and of two, on the event loop of the test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.testing import Cluster
from tests.client.brokers import Stage, staged


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
