"""Clusters of one broker and of two, and an admin client of each."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.admin import AdminClient
from kerolox.testing import Cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(namesrv_addr=cluster.namesrv_addr) as admin:
        yield admin


@pytest.fixture
async def two_brokers(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, brokers=2) as cluster:
        yield cluster


@pytest.fixture
async def admin_of_two(two_brokers: Cluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(namesrv_addr=two_brokers.namesrv_addr) as admin:
        yield admin
