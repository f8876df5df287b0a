"""A cluster for each module of commands that send, read and look."""

from collections.abc import Iterator

import pytest

from kerolox.testing.plugin import RunningCluster


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("kerolox")) as cluster:
        yield cluster
