"""One cluster for all pipelines; each test has its own topics."""

from collections.abc import Iterator
from zlib import crc32

import pytest

from kerolox.spark import register
from tests.spark.clusters import Brokers


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("pipelines"), autoCreateTopicEnable="true") as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def registered(request: pytest.FixtureRequest) -> None:
    if "spark" in request.fixturenames:
        register(request.getfixturevalue("spark"))


@pytest.fixture
def topic(cluster: Brokers, request: pytest.FixtureRequest) -> str:
    """A topic named after the test."""
    name = f"{request.node.path.stem}-{crc32(request.node.name.encode())}"
    cluster.create(name)
    return name
