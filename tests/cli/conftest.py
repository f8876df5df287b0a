"""A cluster for each test module."""

from collections.abc import Iterator

import pytest

from kerolox.testing.plugin import RunningCluster


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("kerolox")) as cluster:
        yield cluster
