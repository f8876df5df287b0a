"""A cluster and a visitor of its dashboard."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.admin import AdminClient
from kerolox.dashboard.server import DashboardOptions
from kerolox.testing import Cluster
from tests.dashboard.browsing import Visitor, visiting


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path / "cluster", settings={"traceTopicEnable": "true"}) as cluster:
        yield cluster


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(namesrv_addr=cluster.namesrv_addr) as admin:
        yield admin


@pytest.fixture
async def visitor(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with visiting(DashboardOptions(namesrv_addr=cluster.namesrv_addr), tmp_path) as visitor:
        yield visitor
